-- SidecarSet: healthy when the sidecars of all matched Pods but the partition are updated. Pods that are not ready for another reason are not its business.
local update = obj.spec.updateStrategy or {}
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The manager has not seen the change yet" }
end
local matched = status.matchedPods or 0
local updated = status.updatedPods or 0
if update.type == "NotUpdate" or updated >= matched then
  return { status = "Healthy", message = matched .. " Pods have the sidecars" }
end
if update.paused then
  return { status = "Suspended", message = "Paused: " .. updated .. " of " .. matched .. " Pods are updated" }
end
local partition = update.partition or 0
if type(partition) == "string" then
  local share = tonumber(string.match(partition, "^([%d%.]+)%%?$")) or 0
  partition = math.ceil(matched * share / 100)
end
if partition > 0 and updated >= matched - partition then
  return { status = "Suspended", message = "Waits at its partition: " .. updated .. " of " .. matched .. " Pods are updated" }
end
return { status = "Progressing", message = updated .. " of " .. matched .. " Pods are updated" }
