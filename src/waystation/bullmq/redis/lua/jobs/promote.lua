--- Make a delayed job ready to run now: 0, or -3 when it is not delayed.
--- keys  wait active prioritized delayed marker meta events pc paused absent
--- args  base id -> int
--- as    queue base
--- uses  push_prioritized mark_ready waiting_list
local job = base .. id
local priority = tonumber(redis.call('HGET', job, 'priority') or 0) or 0
if redis.call('ZREM', delayed, id) == 0 then return -3 end
if priority > 0 then
  push_prioritized(queue, id, priority)
else
  redis.call('LPUSH', waiting_list(queue), id)
end
mark_ready(queue)
redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'delayed')
redis.call('HSET', job, 'delay', 0)
return 0
