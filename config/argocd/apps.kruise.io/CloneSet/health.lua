-- CloneSet: healthy when as many Pods are updated and available as the partition lets through, and none is missing. A rollout that waits at its partition, is
-- paused, or is left to who deletes Pods, is suspended. Conditions of single failures stay after they are mended, so only the deadline counts.
local update = obj.spec.updateStrategy or {}
local rolling = update.rollingUpdate or update
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The manager has not seen the change yet" }
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "Progressing" and condition.status == "False" and condition.reason == "ProgressDeadlineExceeded" then
    return { status = "Degraded", message = condition.message or condition.reason }
  end
end
local wanted = obj.spec.replicas or 1
local expected = status.expectedUpdatedReplicas or 0
local updated = status.updatedReplicas or 0
if updated < expected and rolling.paused then
  return { status = "Suspended", message = "Paused: " .. updated .. " of " .. expected .. " Pods are updated" }
end
if updated < expected and update.type == "OnDelete" then
  return { status = "Suspended", message = "Pods are updated when they are deleted: " .. updated .. " of " .. expected .. " are" }
end
local ready = status.updatedAvailableReplicas or 0
if ready < expected then
  return { status = "Progressing", message = ready .. " of " .. expected .. " Pods are updated and available" }
end
local available = status.availableReplicas or 0
if available < wanted then
  return { status = "Progressing", message = available .. " of " .. wanted .. " Pods are available" }
end
if (status.replicas or 0) > wanted then
  return { status = "Progressing", message = "More Pods than wanted are on their way out" }
end
if expected < wanted and status.currentRevision ~= status.updateRevision then
  return { status = "Suspended", message = "Waits at its partition: " .. updated .. " of " .. wanted .. " Pods are updated" }
end
return { status = "Healthy", message = available .. " Pods are available" }
