--- Stop a scheduler from making jobs; its record stays, and its next job goes as long as that waits
--- for its time. One that has begun, and sleeps or is to be tried again, stays. The reply is 1, 0
--- when it is paused already, -1 when there is none, and -3 for one of BullMQ 5's repeatable jobs.
--- keys  delayed events paused_schedulers absent
--- args  base now:str|int= scheduler by -> int
--- uses  instant_ms forget_job field_of has_begun
local schedulers = base .. 'repeat'
local record = schedulers .. ':' .. scheduler
local slot = redis.call('ZSCORE', schedulers, scheduler)
local count = tonumber(field_of(record, 'ic') or '')
if not slot then
  return count and redis.call('HEXISTS', paused_schedulers, scheduler) == 1 and 0 or -1
end
if not count or count % 1 ~= 0 then return -3 end
local id = 'repeat:' .. scheduler .. ':' .. string.format('%.0f', slot)
-- How many it has made counts against its limit; the job knows, the record counts on over changes.
local is_read, opts = pcall(cjson.decode, field_of(base .. id, 'opts') or '')
local made = is_read and type(opts) == 'table' and type(opts['repeat']) == 'table'
  and tonumber(opts['repeat'].count) or count

if not has_begun(base .. id) and redis.call('ZREM', delayed, id) == 1 then
  forget_job(base .. id)
  redis.call('XADD', events, '*', 'event', 'removed', 'jobId', id, 'prev', 'delayed')
  redis.call('HSET', record, 'ic', string.format('%.0f', count - 1))
  made = made - 1
end
-- Without a place among those that are due, the worker of a job that has begun adds no other.
redis.call('ZREM', schedulers, scheduler)
redis.call('HSET', paused_schedulers, scheduler,
  string.format('%.0f %.0f %s', made, instant_ms(now), by))
return 1
