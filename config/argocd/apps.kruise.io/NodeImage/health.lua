-- NodeImage: healthy when the node has every image.
local status = obj.status or {}
if (status.failed or 0) > 0 then
  return { status = "Degraded", message = status.failed .. " images could not be pulled" }
end
if (status.pulling or 0) + (status.waiting or 0) > 0 then
  return { status = "Progressing", message = (status.succeeded or 0) .. " of " .. (status.desired or 0) .. " images are there" }
end
return { status = "Healthy", message = (status.succeeded or 0) .. " images are there" }
