--- Begin a step that makes room in the end, by taking nothing out of a set (SREM, ZREM).
local function makes_room(command, set)
  -- A server whose memory is full refuses the first write of a script if that could take more, and
  -- nothing after the first. What could empty it would be kept from it.
  redis.call(command, set, '')
end

--- Stop the script when a key holds another type than the command is for, before it has written.
local function must_hold(size, key)
  local found = redis.pcall(size, key)
  if type(found) == 'table' then error(found.err .. ': ' .. key) end
  return found
end
