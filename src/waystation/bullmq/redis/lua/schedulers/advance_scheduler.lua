--- Make a scheduler's next job, if `job` is still the one that keeps it going.
--- `slot` is when a calendar says, '' for one that counts. The reply is the next job's id, '' when
--- this one keeps nothing going or the end has come, and -10 when the slot is taken.
--- keys  meta wait paused active prioritized delayed marker events pc absent
--- args  base now:str|int= scheduler job slot:str|int opts:str|bytes id:str|bytes priority:int
--- args  lifo:int deduplication -> id_or_code
--- as    queue base
--- uses  instant_ms whole limit_of next_slot free_slot insert_iteration
local schedulers = base .. 'repeat'
now = instant_ms(now)
local record = schedulers .. ':' .. scheduler
local previous = tonumber(redis.call('ZSCORE', schedulers, scheduler) or '')
if not previous then return '' end
if job ~= 'repeat:' .. scheduler .. ':' .. string.format('%.0f', previous) then return '' end
local known = redis.call('HMGET', record, 'name', 'data', 'every', 'offset', 'startDate', 'endDate')
if not known[1] then return '' end

local is_cron = slot ~= ''
local every = not is_cron and limit_of(known[3]) or nil
if not is_cron and not every then return '' end
slot = is_cron and tonumber(slot)
  or next_slot(previous, every, whole(known[4]) or 0, whole(known[5]), now)
local free = free_slot(base, scheduler, slot, every or 0)
if free ~= slot then
  redis.call('XADD', events, '*', 'event', 'duplicated',
    'jobId', 'repeat:' .. scheduler .. ':' .. string.format('%.0f', slot))
end
if not free then return -10 end
local finish = whole(known[6])
if finish and free > finish then return '' end
redis.call('ZADD', schedulers, free, scheduler)
if type(redis.pcall('HINCRBY', record, 'ic', 1)) == 'table' then redis.call('HSET', record, 'ic', 1) end
return insert_iteration(queue, scheduler, free, {
  name = known[1], data = known[2] or '{}', opts = opts, id = id, priority = tonumber(priority),
  lifo = lifo == '1', deduplication = deduplication, is_cron = is_cron,
}, now)
