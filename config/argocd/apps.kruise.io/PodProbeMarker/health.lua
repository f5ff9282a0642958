-- PodProbeMarker: healthy when the manager goes by what it says; what probes find is told of the Pods.
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The manager has not seen the change yet" }
end
return { status = "Healthy", message = "In force" }
