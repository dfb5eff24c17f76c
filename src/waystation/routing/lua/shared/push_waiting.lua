--- Let a job wait at the end of its lane.
--- uses  whole index_job high_count set_off
local function push_waiting(line, id, route)
  if set_off(line, id, route) then return false end
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
