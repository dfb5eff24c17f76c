--- Let a job wait again at the turn it had, at the head of its lane in the list.
--- uses  whole index_job high_count
local function put_back(line, id, route, turn)
  local lowest, highest = '-inf', '(2251799813685248'
  local high = 0
  if string.sub(route, 1, 1) ~= 'H' then
    lowest, highest = '2251799813685248', '+inf'
    high = high_count(line)
  end
  local first = redis.call('ZRANGEBYSCORE', line.places, lowest, highest, 'WITHSCORES', 'LIMIT', 0, 1)
  local place = first[2] and math.min(first[2] - 1, turn) or turn
  local follower = high > 0 and redis.call('LINDEX', line.waiting, high)
  if high == 0 then
    redis.call('LPUSH', line.waiting, id)
  elseif follower then
    redis.call('LINSERT', line.waiting, 'BEFORE', follower, id)
  else
    redis.call('RPUSH', line.waiting, id)
  end
  redis.call('ZADD', line.places, whole(place), id)
  index_job(line, id, string.sub(route, 2), turn)
  redis.call('SET', line.status .. id, 'waiting')
end
