--- Put a job off that cannot wait in line, because something else lies where its signature is
--- indexed; true when that is so.
--- uses  whole
local function set_off(line, id, route)
  local known = redis.pcall('ZCARD', line.ids .. string.sub(route, 2))
  if type(known) == 'number' then return false end
  redis.call('ZADD', line.delayed, whole(line.now + 5000), id)
  redis.call('SET', line.status .. id, 'delayed')
  return true
end
