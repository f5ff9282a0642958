-- AdvancedCronJob: healthy while it makes jobs. How these go is told of themselves.
if obj.spec.paused then
  return { status = "Suspended", message = "Paused" }
end
local active = (obj.status or {}).active or {}
return { status = "Healthy", message = #active .. " jobs run" }
