-- ResourceDistribution: healthy when every namespace has its copy. Which have not, and why, is in its conditions.
local status = obj.status
if status == nil or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "The manager has not seen the change yet" }
end
local done = (status.succeeded or 0) .. " of " .. (status.desired or 0) .. " namespaces have a copy"
if (status.failed or 0) > 0 then
  local why = {}
  for _, condition in ipairs(status.conditions or {}) do
    if condition.status == "True" then
      table.insert(why, condition.type)
    end
  end
  return { status = "Degraded", message = done .. ": " .. table.concat(why, ", ") }
end
if (status.succeeded or 0) < (status.desired or 0) then
  return { status = "Progressing", message = done }
end
return { status = "Healthy", message = done }
