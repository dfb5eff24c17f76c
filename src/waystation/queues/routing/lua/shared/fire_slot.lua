--- Make the instance of one slot of a schedule, unless that slot has been made already or the last
--- instance stands in its way; what came of it.
--- uses  push_waiting tell whole queue_of
local function fire_slot(line, now, id, slot, route, data, overlap)
  local queue = queue_of(string.sub(route, 2))
  local last = tonumber(redis.call('HGET', line.fired, id) or 0)
  if tonumber(slot) <= last then return 'done' end
  redis.call('HSET', line.fired, id, slot)
  local instance = id .. ':' .. slot
  local state = last > 0 and redis.call('GET', line.status .. id .. ':' .. whole(last)) or ''
  local waits = state == 'waiting' or state == 'delayed' or state == 'failed'
  if state == 'failed' and not redis.call('ZSCORE', line.delayed, id .. ':' .. whole(last)) then
    waits = false
  end
  if (overlap == 'skip' and (waits or state == 'active')) or (overlap == 'queue-one' and waits) then
    tell(line, now, 'skipped', queue, instance, 'schedule', id, 'slot', slot, 'reason', 'overlap')
    return 'skipped'
  end
  redis.call('SET', line.data .. instance, data)
  redis.call('HSET', line.routes, instance, route)
  tell(line, now, 'fired', queue, instance, 'schedule', id, 'slot', slot)
  push_waiting(line, instance, route)
  tell(line, now, 'waiting', queue, instance, 'prev', 'cron')
  return 'fired'
end
