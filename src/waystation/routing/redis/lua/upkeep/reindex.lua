--- Hold a stretch of the waiting list against the index and mend what differs; how much did.
--- keys  waiting places routes terms events
--- args  namespace now term first count
--- uses  keys_at instant_ms fenced index_foreign whole route_of put_back unindex_jobs
--- uses  dead_letter_unreadable
--- uses  check_keys
local line = keys_at(namespace)
now = instant_ms(now)
local over = fenced(terms, term)
if over then return over end
check_keys(line)
index_foreign(line, now)
local mended, standing, listed = 0, {}, {}
for _, id in ipairs(redis.call('LRANGE', waiting, first, first + count - 1)) do
  if standing[id] then
    -- Another client has pushed it twice.
    mended = mended + redis.call('LREM', waiting, -1, id)
  else
    standing[id] = true
    listed[#listed + 1] = id
  end
end
for _, id in ipairs(redis.call('ZRANGE', places, first, first + count - 1)) do
  if not standing[id] and not redis.call('LPOS', waiting, id) then
    -- Another client has claimed it with plain commands.
    redis.call('ZREM', places, id)
    local route = redis.call('HGET', routes, id)
    if route then unindex_jobs(line, string.sub(route, 2), { id }) end
    mended = mended + 1
  end
end

local known, marks, strangers = {}, {}, {}
for _, id in ipairs(listed) do
  local place = redis.call('ZSCORE', places, id)
  if place then
    known[#known + 1] = id
    marks[#marks + 1] = tonumber(place)
  else
    strangers[#strangers + 1] = id
  end
end
table.sort(marks)
for at, id in ipairs(known) do redis.call('ZADD', places, whole(marks[at]), id) end
for _, id in ipairs(strangers) do
  -- A place between two others cannot be made, so it goes to the head of its lane.
  redis.call('LREM', waiting, 1, id)
  local route, why = route_of(line, id)
  if route then
    local serial = redis.call('INCR', line.serial)
    local is_high = string.sub(route, 1, 1) == 'H'
    put_back(line, id, route, is_high and serial or 4503599627370496 + serial)
  else
    dead_letter_unreadable(line, now, id, why)
  end
  mended = mended + 1
end
return mended
