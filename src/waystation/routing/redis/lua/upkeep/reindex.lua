--- Hold a stretch of the waiting list against the index and mend what differs; how much did, and
--- where the next stretch begins, or -1 when there is none.
--- The list and the index have the same order, so what the index has and the list has not, near the
--- same place, was taken off the list by another client.
--- keys  waiting places routes terms events
--- keys  awaited deadletter delayed ended heads meta serial signatures stalls wake unmoved
--- args  namespace now:str|int term:int first:int count:int -> list[int]
--- uses  keys_at instant_ms fenced index_foreign whole route_of put_back unindex_jobs
--- uses  dead_letter_unreadable
--- uses  check_keys
local line = keys_at(namespace)
now = instant_ms(now)
local over = fenced(terms, term)
if over then return over end
check_keys(line)
index_foreign(line, now)
-- Taking one out of a long list is a walk; the rest of the stretch is for the next call.
local mended, walks, standing, listed = 0, 20, {}, {}
first, count = tonumber(first), tonumber(count)
-- The list may have moved on a little since the stretch before this one.
local from = math.max(first - 2 * count, 0)
for at, id in ipairs(redis.call('LRANGE', waiting, from, first + count - 1)) do
  if from + at > first then
    if not standing[id] then
      listed[#listed + 1] = id
    elseif walks > 0 then
      -- Another client has pushed it twice.
      mended, walks = mended + redis.call('LREM', waiting, -1, id), walks - 1
    end
  end
  standing[id] = true
end
local placed, kept = redis.call('ZRANGE', places, first, first + count - 1), 0
for _, id in ipairs(placed) do
  if standing[id] then
    kept = kept + 1
  else
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
for at = 1, math.min(#strangers, walks) do
  local id = strangers[at]
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
local is_same = redis.call('LLEN', waiting) == redis.call('ZCARD', places)
if is_same or math.max(#listed, #placed) < count or kept + mended == 0 then return { mended, -1 } end
return { mended, #strangers <= walks and first + kept or first }
