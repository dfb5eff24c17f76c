--- Let delayed jobs wait whose time has come; how many did.
--- uses  push_waiting route_of dead_letter_unreadable emit_event whole queue_of
local function promote_due(line, now, most)
  local due = redis.call('ZRANGEBYSCORE', line.delayed, '-inf', whole(now), 'LIMIT', 0, math.min(tonumber(most) or 100, 1000))
  if #due == 0 then return 0 end
  redis.call('ZREM', line.delayed, unpack(due))
  local promoted = 0
  for _, id in ipairs(due) do
    local route, why = route_of(line, id)
    if not route then
      dead_letter_unreadable(line, now, id, why)
      promoted = promoted + 1
    elseif push_waiting(line, id, route) then
      promoted = promoted + 1
      emit_event(line, now, 'waiting', queue_of(string.sub(route, 2)), id, 'prev', 'delayed')
    end
  end
  return promoted
end

--- Make the instance of one slot of a schedule, unless that slot has been made already or the last
--- instance stands in its way; what came of it.
--- uses  push_waiting emit_event whole queue_of text_of
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
    emit_event(line, now, 'skipped', queue, instance, 'schedule', id, 'slot', slot, 'reason', 'overlap')
    return 'skipped'
  end
  redis.call('HSET', line.fired, id, slot .. ' ' .. slot)
  redis.call('SET', line.data .. instance, data)
  redis.call('HSET', line.routes, instance, route)
  emit_event(line, now, 'fired', queue, instance, 'schedule', id, 'slot', slot)
  push_waiting(line, instance, route)
  emit_event(line, now, 'waiting', queue, instance, 'prev', 'cron')
  return 'fired'
end

--- A schedule's data with the id of one instance in it; the rest stays as it was written.
local function instance_data(data, id, instance)
  -- JSON is never written anew here: large numbers would lose digits and empty lists their kind.
  local written = cjson.encode(instance)
  for _, quoted in ipairs({ cjson.encode(id), '"' .. id .. '"' }) do
    local places, last = {}, 0
    repeat
      local first
      first, last = string.find(data, quoted, last + 1, true)
      places[#places + 1] = first
    until not first
    -- Each try reads the whole, and the id may stand in the payload, too: the last ten will do.
    for at = #places, math.max(#places - 9, 1), -1 do
      local changed = string.sub(data, 1, places[at] - 1) .. written
        .. string.sub(data, places[at] + #quoted)
      local read, job = pcall(cjson.decode, changed)
      if read and job.jobId == instance then return changed end
    end
  end
  -- Written in a way we do not know; of two members with one name every reader takes the last.
  local body = string.match(data, '^%s*({.*)}%s*$')
  local more = body and string.find(body, '^{%s*$') == nil and ',' or ''
  return body and body .. more .. '"jobId":' .. written .. '}'
end
