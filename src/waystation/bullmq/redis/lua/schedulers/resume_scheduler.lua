--- Let a paused scheduler make jobs again. `slot` is when a calendar says, '' for one that counts.
--- The reply is the next job's id, '' when it is not paused, and below zero why not: -4 its end has
--- come, -10 the slot is taken.
--- keys  meta wait paused active prioritized delayed marker events pc paused_schedulers absent
--- args  base now:str|int= scheduler slot:str|int opts:str|bytes id:str|bytes priority:int lifo:int
--- args  deduplication -> id_or_code
--- as    queue base
--- uses  instant_ms whole limit_of next_slot free_slot insert_iteration
local schedulers = base .. 'repeat'
now = instant_ms(now)
local record = schedulers .. ':' .. scheduler
local known = redis.call('HMGET', record,
  'name', 'data', 'every', 'offset', 'startDate', 'endDate', 'ic')
local count = tonumber(known[7])
if redis.call('HEXISTS', paused_schedulers, scheduler) == 0 or not known[1]
  or not count or count % 1 ~= 0
  or redis.call('ZSCORE', schedulers, scheduler) then
  return ''
end

local is_cron = slot ~= ''
local every, start = not is_cron and limit_of(known[3]) or nil, whole(known[5])
if not is_cron and not every then return '' end
if is_cron then
  slot = tonumber(slot)
elseif start and start > now then
  slot = start
else
  -- As if it had gone on all the time: what was missed is left out.
  slot = next_slot(0, every, whole(known[4]) or 0, nil, now)
end
slot = free_slot(base, scheduler, slot, every or 0)
if not slot then return -10 end
local finish = whole(known[6])
if finish and slot > finish then return -4 end
redis.call('HDEL', paused_schedulers, scheduler)
redis.call('ZADD', schedulers, slot, scheduler)
redis.call('HSET', record, 'ic', string.format('%.0f', count + 1))
return insert_iteration(queue, scheduler, slot, {
  name = known[1], data = known[2] or '{}', opts = opts, id = id, priority = tonumber(priority),
  lifo = lifo == '1', deduplication = deduplication, is_cron = is_cron,
}, now)
