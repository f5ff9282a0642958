-- ImagePullJob: healthy when every node has the image, degraded when one could not pull it.
local status = obj.status
if status == nil or status.desired == nil then
  return { status = "Progressing", message = "The manager has not seen it yet" }
end
local done = (status.succeeded or 0) .. " of " .. status.desired .. " nodes have the image"
if (status.failed or 0) > 0 then
  return { status = "Degraded", message = status.failed .. " nodes could not pull; " .. done }
end
if status.completionTime ~= nil or (status.startTime ~= nil and (status.succeeded or 0) >= status.desired) then
  return { status = "Healthy", message = done }
end
return { status = "Progressing", message = done }
