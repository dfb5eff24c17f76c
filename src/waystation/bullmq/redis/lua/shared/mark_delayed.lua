--- Tell idle workers when the next delayed job is due.
local function mark_delayed(queue)
  local first = redis.call('ZRANGE', queue.delayed, 0, 0, 'WITHSCORES')
  if first[2] then redis.call('ZADD', queue.marker, first[2] / 4096, '1') end
end
