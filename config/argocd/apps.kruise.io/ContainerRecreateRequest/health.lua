-- ContainerRecreateRequest: it completes whether it succeeds or not; what became of the containers tells which.
local status = obj.status or {}
local phase = status.phase
if phase ~= "Completed" and phase ~= "Succeeded" and phase ~= "Failed" then
  return { status = "Progressing", message = phase or "The daemon has not seen it yet" }
end
for _, container in ipairs(status.containerRecreateStates or {}) do
  if container.phase ~= "Succeeded" then
    return { status = "Degraded", message = container.name .. " was not recreated: " .. (status.message or container.message or container.phase) }
  end
end
if phase == "Failed" or #(status.containerRecreateStates or {}) == 0 then
  return { status = "Degraded", message = status.message or "Nothing was recreated" }
end
return { status = "Healthy", message = #status.containerRecreateStates .. " containers were recreated" }
