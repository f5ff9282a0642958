-- BroadcastJob: healthy when it is completed. One that never ends is healthy while every node is done with it.
local status = obj.status or {}
local phase = status.phase
if phase == "completed" then
  return { status = "Healthy", message = (status.succeeded or 0) .. " Pods succeeded" }
end
if phase == "failed" then
  return { status = "Degraded", message = (status.failed or 0) .. " Pods failed" }
end
if phase == "paused" or obj.spec.paused then
  return { status = "Suspended", message = "Paused" }
end
local never_ends = (obj.spec.completionPolicy or {}).type == "Never"
if never_ends and status.desired ~= nil and (status.succeeded or 0) >= status.desired then
  return { status = "Healthy", message = status.desired .. " nodes are done, and new ones will be" }
end
return { status = "Progressing", message = (status.succeeded or 0) .. " of " .. (status.desired or 0) .. " nodes are done" }
