--- Put a job among the delayed, behind those of the same millisecond; returns nothing.
local function push_delayed(queue, id, due)
  local least = due * 4096
  local most = least + 4095
  local last = redis.call('ZREVRANGEBYSCORE', queue.delayed, most, least, 'WITHSCORES', 'LIMIT', 0, 1)
  local score = least
  if last[2] then score = math.min(tonumber(last[2]) + 1, most) end
  redis.call('ZADD', queue.delayed, score, id)
end
