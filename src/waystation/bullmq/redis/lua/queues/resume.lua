--- Resume the queue, after bringing its two lists together, so many ids in a call. The reply is how
--- many are left to move; the queue stays paused until there are none.
--- keys  meta wait paused prioritized delayed marker events grouped groups_marker absent
--- args  most:int -> int
--- uses  mark_delayed join_waiting
local left = join_waiting({ wait = wait, paused = paused }, tonumber(most))
if left > 0 then return left end
if redis.call('EXISTS', paused) == 1 then redis.call('RENAME', paused, wait) end
redis.call('HDEL', meta, 'paused')
local has_grouped = redis.call('ZCARD', grouped) > 0
if has_grouped then redis.call('ZADD', groups_marker, 0, '0') end
if has_grouped or redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) > 0 then
  redis.call('ZADD', marker, 0, '0')
else
  mark_delayed({ delayed = delayed, marker = marker })
end
redis.call('XADD', events, '*', 'event', 'resumed')
return 0
