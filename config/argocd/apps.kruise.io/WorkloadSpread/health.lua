-- WorkloadSpread: healthy when the manager goes by what it says; subsets are filled as Pods are made.
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The manager has not seen the change yet" }
end
return { status = "Healthy", message = "In force" }
