-- ImageListPullJob: healthy when every node has every image, degraded when one could not be pulled.
local status = obj.status
if status == nil or status.desired == nil then
  return { status = "Progressing", message = "The manager has not seen it yet" }
end
local failed = #(status.failedImageStatuses or {})
local done = (status.succeeded or 0) .. " of " .. status.desired .. " images are everywhere"
if failed > 0 then
  return { status = "Degraded", message = failed .. " images could not be pulled; " .. done }
end
if status.completionTime ~= nil or (status.startTime ~= nil and (status.succeeded or 0) >= status.desired) then
  return { status = "Healthy", message = done }
end
return { status = "Progressing", message = done }
