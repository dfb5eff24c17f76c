--- Begin a step that makes room in the end, by taking nothing out of a set (SREM, ZREM).
local function makes_room(command, set)
  -- A server whose memory is full refuses the first write of a script if that could take more, and
  -- nothing after the first. What could empty it would be kept from it.
  redis.call(command, set, '')
end
