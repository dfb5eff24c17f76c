--- Let a job wait at the end of its lane.
--- uses  whole index_job high_count postpone
local function push_waiting(line, id, route)
  if postpone(line, id, route) then return false end
  local serial = redis.call('INCR', line.serial)
  local turn = serial
  if string.sub(route, 1, 1) == 'H' then
    local high = high_count(line)
    local follower = redis.call('LINDEX', line.waiting, high)
    if not follower then
      redis.call('RPUSH', line.waiting, id)
      redis.call('ZADD', line.places, whole(turn), id)
    elseif high <= 100 then
      redis.call('LINSERT', line.waiting, 'BEFORE', follower, id)
      redis.call('ZADD', line.places, whole(turn), id)
    else
      -- Walking past a long lane would cost more than it is worth to readers of the list; the
      -- order of claims is the index's, and stays first in, first out.
      local first = redis.call('ZRANGE', line.places, 0, 0, 'WITHSCORES')
      redis.call('LPUSH', line.waiting, id)
      redis.call('ZADD', line.places, whole(first[2] - 1), id)
    end
  else
    turn = 4503599627370496 + serial
    redis.call('RPUSH', line.waiting, id)
    redis.call('ZADD', line.places, whole(turn), id)
  end
  index_job(line, id, string.sub(route, 2), turn)
  redis.call('SET', line.status .. id, 'waiting')
  return true
end

--- Let a job wait again at the turn it had; in the list it stands there too, or at the head of its
--- lane when that would be a long walk.
--- uses  whole index_job high_count postpone
local function put_back(line, id, route, turn)
  if postpone(line, id, route) then return end
  redis.call('ZADD', line.places, whole(turn), id)
  -- Asked for after it was entered, because another one may have come to stand at the same place.
  local rank = redis.call('ZRANK', line.places, id)
  if rank > 100 then
    redis.call('ZREM', line.places, id)
    rank = string.sub(route, 1, 1) == 'H' and 0 or high_count(line)
    local first = redis.call('ZRANGE', line.places, rank, rank, 'WITHSCORES')
    redis.call('ZADD', line.places, whole(first[2] and first[2] - 1 or turn), id)
  end
  local follower = redis.call('LINDEX', line.waiting, rank)
  if rank == 0 then
    redis.call('LPUSH', line.waiting, id)
  elseif follower then
    redis.call('LINSERT', line.waiting, 'BEFORE', follower, id)
  else
    redis.call('RPUSH', line.waiting, id)
  end
  index_job(line, id, string.sub(route, 2), turn)
  redis.call('SET', line.status .. id, 'waiting')
end

--- Take one id out of the waiting list, wherever it stands; false when it is not there.
--- A list cannot drop an entry by its place, and looking for one costs as much as there is on the
--- way. So a job near an end is looked for; deep inside, the last of the lane moves into the gap,
--- and nobody's place in the list ever gets worse.
--- uses  whole high_count
local function remove_waiting(line, id)
  local rank = redis.call('ZRANK', line.places, id)
  local gap = rank and redis.call('ZSCORE', line.places, id)
  redis.call('ZREM', line.places, id)
  if not rank or redis.call('LINDEX', line.waiting, rank) ~= id then
    -- Another client has changed the list without the index; a search is slow, but right.
    return redis.call('LREM', line.waiting, 1, id) == 1
  end
  local last = redis.call('LLEN', line.waiting) - 1
  if rank <= 100 or last - rank <= 100 then
    return redis.call('LREM', line.waiting, rank <= last - rank and 1 or -1, id) == 1
  end
  if tonumber(gap) < 2251799813685248 then
    -- The last of the high lane closes the gap there, and leaves one where the lanes meet.
    local high = high_count(line)
    if rank < high then
      local mover = redis.call('LINDEX', line.waiting, high)
      redis.call('LSET', line.waiting, rank, mover)
      redis.call('ZADD', line.places, gap, mover)
      rank = high
    end
    local follower = redis.call('LINDEX', line.waiting, rank + 1)
    gap = follower and whole(redis.call('ZSCORE', line.places, follower) - 1)
  end
  local mover = redis.call('RPOP', line.waiting)
  if rank < last then
    redis.call('LSET', line.waiting, rank, mover)
    redis.call('ZADD', line.places, gap, mover)
  end
  return true
end

--- Whether an id is in the waiting list; when it is not, the index forgets it.
--- uses  unindex_jobs
local function is_waiting(line, id, signature)
  local rank = redis.call('ZRANK', line.places, id)
  if rank and redis.call('LINDEX', line.waiting, rank) == id then return true end
  -- Other clients take jobs off the head, and the index then has more before it than the list.
  if rank and redis.call('LPOS', line.waiting, id, 'MAXLEN', rank + 100) then return true end
  redis.call('ZREM', line.places, id)
  unindex_jobs(line, signature, { id })
  return false
end

--- Postpone a job that cannot wait, because a key of another type lies where its signature is
--- indexed; true when that is so.
--- uses  whole
local function postpone(line, id, route)
  local known = redis.pcall('ZCARD', line.ids .. string.sub(route, 2))
  if type(known) == 'number' then return false end
  redis.call('ZADD', line.delayed, whole(line.now + 5000), id)
  redis.call('SET', line.status .. id, 'delayed')
  return true
end

--- Enter a waiting job under its signature, at its turn.
--- uses  whole queue_of wake_for
local function index_job(line, id, signature, turn)
  redis.call('ZADD', line.ids .. signature, whole(turn), id)
  -- It leads its signature when it is the first there, or now stands before the first.
  if redis.call('ZADD', line.heads, 'LT', 'CH', whole(turn), signature) == 1 then
    redis.call('ZADD', line.signatures, 'NX', whole(redis.call('INCR', line.serial)), signature)
    wake_for(line, queue_of(signature), signature)
  end
end

--- Take ids out of their signature, and let the next one lead it; true when there is a next.
local function unindex_jobs(line, signature, ids)
  if type(redis.pcall('ZREM', line.ids .. signature, unpack(ids))) == 'table' then return false end
  local first = redis.call('ZRANGE', line.ids .. signature, 0, 0, 'WITHSCORES')
  if first[1] then
    redis.call('ZADD', line.heads, first[2], signature)
  else
    redis.call('ZREM', line.heads, signature)
    -- Each new worker is compared with all; a few may stay, and spare the next job the comparison.
    if redis.call('ZCARD', line.signatures) > 200 then redis.call('ZREM', line.signatures, signature) end
  end
  return first[1] ~= nil
end

--- How many jobs of the high lane stand at the head of the list.
local function high_count(line)
  -- Turns of the normal lane begin at 2^52; half of that parts the lanes.
  return redis.call('ZCOUNT', line.places, '-inf', '(2251799813685248')
end

--- Index the jobs that other clients have pushed with plain commands, each in its lane.
--- uses  push_waiting route_of dead_letter_unreadable check_keys
local function index_foreign(line, now)
  line.now = now
  local missing = redis.call('LLEN', line.waiting) - redis.call('ZCARD', line.places)
  if missing <= 0 then return end
  check_keys(line)

  local normal, urgent, entered = {}, {}, {}
  local function enter(id, end_of_list)
    redis.call('LREM', line.waiting, end_of_list, id)
    -- Pushed twice, or while a worker holds it: one place is enough.
    if entered[id] or redis.call('HEXISTS', line.claims, id) == 1 then return end
    entered[id] = true
    local route, why = route_of(line, id)
    if not route then return dead_letter_unreadable(line, now, id, why) end
    local lane = string.sub(route, 1, 1) == 'H' and urgent or normal
    lane[#lane + 1] = { id, route }
  end

  local function strangers(ids, from, to, step)
    local known, found = redis.call('ZMSCORE', line.places, unpack(ids)), {}
    for at = from, to, step do
      if known[at] then break end
      found[#found + 1] = ids[at]
    end
    return found
  end

  -- At the right end stands what was pushed as normal, at the left what was pushed as urgent.
  local ids = redis.call('LRANGE', line.waiting, -1000, -1)
  for _, id in ipairs(strangers(ids, #ids, 1, -1)) do enter(id, -1) end
  ids = redis.call('LRANGE', line.waiting, 0, 999)
  if #ids > 0 then
    local found = strangers(ids, 1, #ids, 1)
    for at = #found, 1, -1 do enter(found[at], 1) end
  end
  -- Both ends were walked from the newest, or for the left one to the newest.
  for at = #normal, 1, -1 do push_waiting(line, normal[at][1], normal[at][2]) end
  for at = 1, #urgent do push_waiting(line, urgent[at][1], urgent[at][2]) end
end
