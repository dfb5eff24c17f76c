--- Delay a delayed job anew, by milliseconds from now: 0, -1 when it is gone, -3 when it is not
--- delayed.
--- keys  delayed marker meta events absent
--- args  base now id delay
--- uses  now_ms push_delayed mark_delayed events_cap
local job, due = base .. id, now_ms(now) + tonumber(delay)
if redis.call('HLEN', job) == 0 then return -1 end
if redis.call('ZREM', delayed, id) == 0 then return -3 end
local queue = { delayed = delayed, marker = marker }
push_delayed(queue, id, due)
redis.call('HSET', job, 'delay', delay)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'delayed', 'jobId', id,
  'delay', string.format('%.0f', due))
mark_delayed(queue)
return 0
