--- Stop the script when a key holds another type than the command is for, before it has written.
local function must_hold(size, key)
  local found = redis.pcall(size, key)
  if type(found) == 'table' then error(found.err .. ': ' .. key) end
  return found
end
