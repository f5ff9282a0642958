-- UnitedDeployment: healthy when all Pods are ready, and all but the partitions of the subsets are updated.
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The manager has not seen the change yet" }
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "SubsetFailure" and condition.status == "True" then
    return { status = "Degraded", message = condition.message or "A subset has failed" }
  end
end
local wanted = obj.spec.replicas or 1
local kept = 0
local manual = (obj.spec.updateStrategy or {}).manualUpdate or {}
for _, partition in pairs(manual.partitions or {}) do
  kept = kept + partition
end
local updated = status.updatedReplicas or 0
if updated < wanted - kept then
  return { status = "Progressing", message = updated .. " of " .. wanted .. " Pods are updated" }
end
local ready = status.readyReplicas or 0
if ready < wanted then
  return { status = "Progressing", message = ready .. " of " .. wanted .. " Pods are ready" }
end
if (status.replicas or 0) > wanted then
  return { status = "Progressing", message = "More Pods than wanted are on their way out" }
end
if updated < wanted then
  return { status = "Suspended", message = "Waits at its partitions: " .. updated .. " of " .. wanted .. " Pods are updated" }
end
return { status = "Healthy", message = ready .. " Pods are ready" }
