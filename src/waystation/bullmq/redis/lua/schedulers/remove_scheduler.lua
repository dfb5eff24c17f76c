--- Remove a scheduler, with its next job as long as that waits for its time; 1, or 0 if there is none.
--- One that has begun, and sleeps or is to be tried again, stays.
--- keys  delayed events paused_schedulers absent
--- args  base scheduler -> bool
--- uses  forget_job has_begun
local schedulers = base .. 'repeat'
local slot = redis.call('ZSCORE', schedulers, scheduler)
if slot then
  local id = 'repeat:' .. scheduler .. ':' .. string.format('%.0f', slot)
  if not has_begun(base .. id) and redis.call('ZREM', delayed, id) == 1 then
    forget_job(base .. id)
    redis.call('XADD', events, '*', 'event', 'removed', 'jobId', id, 'prev', 'delayed')
  end
end
local had = redis.call('DEL', schedulers .. ':' .. scheduler)
local was_paused = redis.call('HDEL', paused_schedulers, scheduler)
return math.max(redis.call('ZREM', schedulers, scheduler), math.min(had, was_paused))
