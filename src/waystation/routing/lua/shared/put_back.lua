--- Let a job wait again at the turn it had; in the list it stands there too, or at the head of its
--- lane when that would be a long walk.
--- uses  whole index_job high_count set_off
local function put_back(line, id, route, turn)
  if set_off(line, id, route) then return end
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
