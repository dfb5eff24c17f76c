--- Enter into the index what others have put into the list with plain commands.
--- uses  whole index_job route_of bury_unreadable
local function adopt(line, now)
  if redis.call('LLEN', line.waiting) <= redis.call('ZCARD', line.places) then return end

  local function strangers(ids, from, to, step)
    local known, found = redis.call('ZMSCORE', line.places, unpack(ids)), {}
    for at = from, to, step do
      if known[at] then return found, true end
      found[#found + 1] = ids[at]
    end
    return found, false
  end

  local function enter(id, place, turn)
    local route, why = route_of(line, id)
    if not route then
      redis.call('LREM', line.waiting, place > turn and -1 or 1, id)
      return bury_unreadable(line, now, id, why)
    end
    redis.call('ZADD', line.places, whole(place), id)
    redis.call('SET', line.status .. id, 'waiting')
    index_job(line, id, string.sub(route, 2), turn)
  end

  local ids = redis.call('LRANGE', line.waiting, -1000, -1)
  local found = strangers(ids, #ids, 1, -1)
  for at = #found, 1, -1 do
    local turn = 4503599627370496 + redis.call('INCR', line.serial)
    enter(found[at], turn, turn)
  end
  if redis.call('LLEN', line.waiting) <= redis.call('ZCARD', line.places) then return end

  -- At the left end stands what was pushed as urgent, the newest first.
  ids = redis.call('LRANGE', line.waiting, 0, 999)
  if #ids == 0 then return end
  found = strangers(ids, 1, #ids, 1)
  for at = #found, 1, -1 do
    local first = redis.call('ZRANGE', line.places, 0, 0, 'WITHSCORES')
    local turn = redis.call('INCR', line.serial)
    enter(found[at], first[2] and math.min(first[2] - 1, turn) or turn, turn)
  end
end
