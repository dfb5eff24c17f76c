--- Resume the queue, after moving back the jobs that BullMQ 5 put into `paused`, so many a call.
--- The reply is how many are still to be put back; the queue stays paused until there are none.
--- keys  meta wait paused prioritized delayed marker events
--- args  most
--- uses  mark_delayed is_shared_with_5
-- BullMQ 5 would write the rest over what has been put back, so with BullMQ 5 on the queue this is one step.
if is_shared_with_5(redis.call('HGET', meta, 'version')) then most = 0 end
local aside = redis.call('LRANGE', paused, 0, most - 1)
for first = 1, #aside, 1000 do
  -- Those jobs are older than what came since, so they go to the end that is claimed first.
  redis.call('RPUSH', wait, unpack(aside, first, math.min(first + 999, #aside)))
end
redis.call('LTRIM', paused, #aside, -1)
local left = redis.call('LLEN', paused)
if left > 0 then return left end
redis.call('HDEL', meta, 'paused')
if redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) > 0 then
  redis.call('ZADD', marker, 0, '0')
else
  mark_delayed({ delayed = delayed, marker = marker })
end
redis.call('XADD', events, '*', 'event', 'resumed')
return 0
