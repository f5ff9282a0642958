-- StatefulSet: healthy when all Pods are available and those above the partition are updated. Waiting at the partition, paused, or left to who deletes Pods is
-- suspended.
local update = obj.spec.updateStrategy or {}
local rolling = update.rollingUpdate or {}
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The manager has not seen the change yet" }
end
local wanted = obj.spec.replicas or 1
local expected = math.max(wanted - (rolling.partition or 0), 0)
local updated = status.updatedReplicas or 0
local is_new = status.currentRevision == status.updateRevision
if updated < expected and not is_new and rolling.paused then
  return { status = "Suspended", message = "Paused: " .. updated .. " of " .. expected .. " Pods are updated" }
end
if updated < wanted and not is_new and update.type == "OnDelete" then
  return { status = "Suspended", message = "Pods are updated when they are deleted: " .. updated .. " of " .. wanted .. " are" }
end
if updated < expected then
  return { status = "Progressing", message = updated .. " of " .. expected .. " Pods are updated" }
end
local available = status.availableReplicas or 0
if available < wanted then
  return { status = "Progressing", message = available .. " of " .. wanted .. " Pods are available" }
end
if (status.replicas or 0) > wanted then
  return { status = "Progressing", message = "More Pods than wanted are on their way out" }
end
if expected < wanted and not is_new then
  return { status = "Suspended", message = "Waits at its partition: " .. updated .. " of " .. wanted .. " Pods are updated" }
end
return { status = "Healthy", message = available .. " Pods are available" }
