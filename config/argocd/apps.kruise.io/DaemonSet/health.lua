-- DaemonSet: healthy when every node has an available Pod, and all but the partition are updated. Waiting at the partition, paused, or left to who deletes Pods
-- is suspended.
local update = obj.spec.updateStrategy or {}
local rolling = update.rollingUpdate or {}
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The manager has not seen the change yet" }
end
local wanted = status.desiredNumberScheduled or 0
local partition = rolling.partition or 0
if type(partition) == "string" then
  local share = tonumber(string.match(partition, "^([%d%.]+)%%?$")) or 0
  partition = math.ceil(wanted * share / 100)
end
local expected = math.max(wanted - partition, 0)
local updated = status.updatedNumberScheduled or 0
if updated < expected and rolling.paused then
  return { status = "Suspended", message = "Paused: " .. updated .. " of " .. expected .. " nodes are updated" }
end
if updated < wanted and update.type == "OnDelete" then
  return { status = "Suspended", message = "Pods are updated when they are deleted: " .. updated .. " of " .. wanted .. " are" }
end
if updated < expected then
  return { status = "Progressing", message = updated .. " of " .. expected .. " nodes are updated" }
end
local available = status.numberAvailable or 0
if available < wanted then
  return { status = "Progressing", message = available .. " of " .. wanted .. " nodes have an available Pod" }
end
if updated < wanted then
  return { status = "Suspended", message = "Waits at its partition: " .. updated .. " of " .. wanted .. " nodes are updated" }
end
return { status = "Healthy", message = available .. " nodes have an available Pod" }
