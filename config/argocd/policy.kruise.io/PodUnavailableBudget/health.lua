-- PodUnavailableBudget: healthy when as many Pods are available as it protects. Fewer is what a workload that starts or is updated looks like, not a failure of
-- the budget.
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The manager has not seen the change yet" }
end
if (status.currentAvailable or 0) < (status.desiredAvailable or 0) then
  return { status = "Progressing", message = (status.currentAvailable or 0) .. " Pods are available, " .. status.desiredAvailable .. " are protected" }
end
return { status = "Healthy", message = (status.unavailableAllowed or 0) .. " Pods may be disturbed" }
