-- EphemeralJob: healthy when its containers have ended well.
local status = obj.status or {}
local phase = status.phase
local done = (status.succeeded or 0) .. " of " .. (status.match or 0) .. " Pods are done"
if phase == "Succeeded" then
  return { status = "Healthy", message = done }
end
if phase == "Failed" or phase == "Error" then
  return { status = "Degraded", message = (status.failed or 0) .. " Pods failed" }
end
if phase == "Paused" or obj.spec.paused then
  return { status = "Suspended", message = "Paused" }
end
return { status = "Progressing", message = done }
