--- Whether BullMQ 5 made or opened the queue last, by the version in its `meta`.
local function is_shared_with_5(version)
  return version and string.find(version, ':5.', 1, true) ~= nil
end
