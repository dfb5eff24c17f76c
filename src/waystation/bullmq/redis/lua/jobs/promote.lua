--- Make a delayed job ready to run now: 0, or -3 when it is not delayed.
--- keys  wait active prioritized delayed marker meta events pc paused absent
--- args  base id -> int
--- as    queue base
--- uses  make_wait mark_ready
local job = base .. id
local priority = tonumber(redis.call('HGET', job, 'priority') or 0) or 0
if redis.call('ZREM', delayed, id) == 0 then return -3 end
make_wait(queue, id, priority)
mark_ready(queue)
redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'delayed')
redis.call('HSET', job, 'delay', 0)
return 0
