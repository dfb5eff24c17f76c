--- Make the next job of one of BullMQ 5's repeatable jobs, if the job of slot `previous` is still
--- the one that keeps it going. The reply is 1, or 0 when it keeps nothing going.
--- keys  id meta wait paused active prioritized delayed marker events pc absent
--- args  base now:int repeatable previous:int slot:int job name data:bytes opts:bytes delay:int
--- args  priority:int lifo:int -> bool
--- as    queue base
--- uses  store_job enqueue_job
local repeatables = base .. 'repeat'
local current = redis.call('ZSCORE', repeatables, repeatable)
if not current or tonumber(current) ~= tonumber(previous) then return 0 end
redis.call('ZADD', repeatables, slot, repeatable)
if redis.call('EXISTS', base .. job) == 1 then
  redis.call('XADD', events, '*', 'event', 'duplicated', 'jobId', job)
  return 0
end
now, delay, priority = tonumber(now), tonumber(delay), tonumber(priority)
redis.pcall('INCR', id)
store_job(queue, job, name, data, opts, nil, string.format('%.0f', now), delay, priority,
  'rjk', repeatable)
enqueue_job(queue, job, now, delay, priority, lifo == '1')
return 1
