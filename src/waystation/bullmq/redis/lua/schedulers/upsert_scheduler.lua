--- Make a scheduler, or change one, and its next job; one that waits for its time is replaced, and one
--- that has begun goes on beside it, or alone when no other slot comes before the end.
--- One that is paused stays so, and makes no job.
--- `fields` are those of the record; `slot` is when a calendar says, '' for one that counts.
--- The reply is the job's id, '' while it is paused, or below zero why not: -10 the slot is taken, -11
--- all slots are.
--- keys  meta wait paused active prioritized delayed marker events pc paused_schedulers grouped absent
--- args  base now:str|int= scheduler slot:str|int every:str|int offset:str|int start_date:str|int
--- args  end_date:str|int name:bytes data:str|bytes opts:str|bytes id:str|bytes priority:int lifo:int deduplication
--- args  fields:str|bytes|int... -> id_or_code
--- as    queue base
--- uses  instant_ms events_cap next_slot free_slot insert_iteration forget_job
--- uses  has_begun leave_group
local schedulers = base .. 'repeat'
now, every, offset = instant_ms(now), tonumber(every), tonumber(offset) or 0
local is_cron = slot ~= ''
local record = schedulers .. ':' .. scheduler
local previous = tonumber(redis.call('ZSCORE', schedulers, scheduler) or '')
local known = redis.call('HMGET', record, 'every', 'offset', 'ic')

local pending = previous and 'repeat:' .. scheduler .. ':' .. string.format('%.0f', previous)
local places = {
  { prioritized, 'ZSCORE', 'ZREM' }, { delayed, 'ZSCORE', 'ZREM' },
  { wait, 'LPOS', 'LREM' }, { paused, 'LPOS', 'LREM' }, { grouped, 'ZSCORE', 'leave' },
}
local place
-- What a worker has begun is no place for another job: it may sleep, or wait to be tried again.
local is_free = pending and not has_begun(base .. pending)
for _, each in ipairs(is_free and places or {}) do
  if redis.call(each[2], each[1], pending) then place = each end
end

local phase = offset
if is_cron then
  slot = tonumber(slot)
else
  local is_same = tonumber(known[1]) == every
  slot, phase = next_slot(is_same and previous, every, offset, tonumber(start_date), now)
  if is_same and place then
    slot = previous
    phase = offset > 0 and offset or tonumber(known[2]) or phase
  end
end
local mark = known[3] and not previous and redis.call('HGET', paused_schedulers, scheduler)
if mark then
  redis.call('DEL', record)
  redis.call('HSET', record, 'name', name, 'offset', string.format('%.0f', phase),
    'ic', known[3], unpack(ARGV, fields))
  -- Its limit counts anew, as for one that is changed while it runs.
  redis.call('HSET', paused_schedulers, scheduler, '0' .. (string.match(mark, ' .*$') or ''))
  return ''
end
if not (place and slot == previous) then
  local free = free_slot(base, scheduler, slot, every or 0)
  if not free then return is_cron and -10 or -11 end
  slot = free
end
local is_last = end_date ~= '' and slot > tonumber(end_date) and pending and not place
  and redis.call('EXISTS', base .. pending) == 1
if is_last then slot = previous end

events_cap(meta)
if place then
  if place[3] == 'ZREM' then
    redis.call('ZREM', place[1], pending)
  elseif place[3] == 'leave' then
    leave_group(queue, pending)
  else
    redis.call('LREM', place[1], 1, pending)
  end
  forget_job(base .. pending)
end
redis.call('ZADD', schedulers, slot, scheduler)
redis.call('HDEL', paused_schedulers, scheduler)
redis.call('DEL', record)
redis.call('HSET', record, 'name', name, 'offset', string.format('%.0f', phase),
  'ic', known[3] or 1, unpack(ARGV, fields))
if is_last then return pending end
return insert_iteration(queue, scheduler, slot, {
  name = name, data = data, opts = opts, id = id, priority = tonumber(priority), lifo = lifo == '1',
  deduplication = deduplication, is_cron = is_cron,
}, now)
