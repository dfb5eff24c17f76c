--- Make the instance of one slot of a schedule, unless that slot has been made already or the last
--- instance stands in its way; what came of it.
--- uses  push_waiting tell whole queue_of text_of
local function fire_slot(line, now, id, slot, route, data, overlap)
  local queue = queue_of(string.sub(route, 2))
  local handled, made = string.match(redis.call('HGET', line.fired, id) or '', '^(%d+) (%d+)$')
  if tonumber(slot) <= tonumber(handled or 0) then return 'done' end
  redis.call('HSET', line.fired, id, slot .. ' ' .. (made or 0))
  local instance, last = id .. ':' .. slot, id .. ':' .. (made or 0)
  local state = text_of(line.status .. last)
  local waits = state == 'waiting' or state == 'delayed'
    -- A failed one waits when there is another attempt to come.
    or (state == 'failed' and redis.call('ZSCORE', line.delayed, last))
  if (overlap == 'skip' and (waits or state == 'active')) or (overlap == 'queue-one' and waits) then
    tell(line, now, 'skipped', queue, instance, 'schedule', id, 'slot', slot, 'reason', 'overlap')
    return 'skipped'
  end
  redis.call('HSET', line.fired, id, slot .. ' ' .. slot)
  redis.call('SET', line.data .. instance, data)
  redis.call('HSET', line.routes, instance, route)
  tell(line, now, 'fired', queue, instance, 'schedule', id, 'slot', slot)
  push_waiting(line, instance, route)
  tell(line, now, 'waiting', queue, instance, 'prev', 'cron')
  return 'fired'
end
