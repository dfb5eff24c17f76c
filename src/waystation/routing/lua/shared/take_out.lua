--- Take one id out of the waiting list, wherever it stands; false when it is not there.
--- A list cannot drop an entry by its place, and looking for one costs as much as there is on the
--- way. So a job near an end is looked for; deep inside, the last of the lane moves into the gap,
--- and nobody's place in the list ever gets worse.
--- uses  whole high_count
local function take_out(line, id)
  local rank = redis.call('ZRANK', line.places, id)
  local gap = rank and redis.call('ZSCORE', line.places, id)
  redis.call('ZREM', line.places, id)
  if not rank or redis.call('LINDEX', line.waiting, rank) ~= id then
    -- Somebody has changed the list without the index; looking is slow, but right.
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
