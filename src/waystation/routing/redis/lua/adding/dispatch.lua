--- Add jobs, all of them or none.
--- Each job is its kind (waiting, delayed or cron), id, data, route, due (an instant, or +delay),
--- idempotency key or nothing, seconds that key is kept, and a JSON list of the ids it waits for.
--- The reply has the id of each, or for one that was there before its id and its data ('' when it
--- has ended).
--- keys  waiting delayed cron routes held awaited places heads signatures serial wake events
--- keys  deadletter ended meta stalls unmoved
--- args  namespace now:str|int jobs:str|bytes|int... -> added
--- unchecked  serial deadletter ended meta stalls unmoved
--- uses  keys_at instant_ms whole emit_event push_waiting queue_of text_of check_serial must_hold
--- uses  wake_for hold
--- lazy  index_foreign
local line = keys_at(namespace)
now = instant_ms(now)

check_serial(line)
-- Whoever names a job that is not added, because another one has its key, waits for that other one.
local made, stands, holders, awaited_by, written, checked = {}, {}, {}, {}, {}, {}
for at = jobs, #ARGV, 8 do
  local id, key, waits_for = ARGV[at + 1], ARGV[at + 5], ARGV[at + 7]
  if waits_for ~= '' then
    local names, is_renamed = cjson.decode(waits_for), false
    for place, name in ipairs(names) do
      local other = stands[name] or name
      local known = made[other] or redis.call('HEXISTS', line.routes, other) == 1
        or redis.call('EXISTS', line.data .. other) == 1
        or text_of(line.status .. other) == 'completed'
      must_hold('SCARD', line.dependents .. other)
      if not known then
        return redis.error_reply('NOT_FOUND job ' .. id .. ' depends on job ' .. other
          .. ', which is unknown, or was cancelled')
      end
      if made[other] == 'cron' or redis.call('ZSCORE', cron, other) then
        return redis.error_reply('INVALID_OPTION job ' .. id .. ' depends on job ' .. other
          .. ', which is a schedule and never completes')
      end
      names[place], is_renamed = other, is_renamed or other ~= name
    end
    awaited_by[at] = names
    -- The data ends with the names; the rest of it stays as it is, byte for byte.
    written[at] = is_renamed and string.sub(ARGV[at + 2], 1, -#waits_for - 2) .. cjson.encode(names) .. '}'
  end
  if key ~= '' then
    must_hold('STRLEN', line.jobs .. 'idempotency:' .. key)
    holders[key] = holders[key] or text_of(line.jobs .. 'idempotency:' .. key) or id
  end
  stands[id] = key ~= '' and holders[key] ~= id and holders[key] or nil
  made[id] = made[id] or not stands[id] and ARGV[at]
  local signature = string.sub(ARGV[at + 3], 2)
  if not checked[signature] then must_hold('ZCARD', line.ids .. signature) end
  checked[signature] = true
end

local function due_at(text)
  local delay = string.match(text, '^%+(%d+)$')
  return delay and now + tonumber(delay) or tonumber(text)
end

line.now = now
if redis.call('LLEN', waiting) > redis.call('ZCARD', places) then lazy().index_foreign(line, now) end
local ids = {}
for at = jobs, #ARGV, 8 do
  local kind, id, data = ARGV[at], ARGV[at + 1], written[at] or ARGV[at + 2]
  local route, due = ARGV[at + 3], ARGV[at + 4]
  local key, kept_s, names = ARGV[at + 5], ARGV[at + 6], awaited_by[at]
  local queue = queue_of(string.sub(route, 2))
  local stands = key ~= '' and redis.call('GET', line.jobs .. 'idempotency:' .. key)
  if stands then
    emit_event(line, now, 'deduplicated', queue, stands, 'key', key)
    ids[#ids + 1] = { stands, text_of(line.data .. stands) or '' }
  elseif redis.call('SET', line.data .. id, data, 'NX') then
    if key ~= '' then redis.call('SET', line.jobs .. 'idempotency:' .. key, id, 'EX', kept_s) end
    redis.call('HSET', line.routes, id, route)
    emit_event(line, now, 'added', queue, id, 'lane', string.sub(route, 1, 1), 'target', string.sub(route, 2))
    local delay = kind == 'delayed' and math.max(due_at(due) - now, 0) or 0
    if names and hold(line, now, id, route, names, delay) > 0 then
      -- Another job's end lets it go.
    elseif kind == 'waiting' then
      push_waiting(line, id, route)
      emit_event(line, now, 'waiting', queue, id)
    else
      redis.call('ZADD', kind == 'cron' and cron or delayed, whole(due_at(due)), id)
      redis.call('SET', line.status .. id, kind)
      if kind == 'cron' then
        local schedule = cjson.decode(data).schedule
        emit_event(line, now, 'delayed', queue, id, 'due', whole(due_at(due)), 'kind', kind,
          'cron', schedule.cron, 'timezone', schedule.timezone or 'UTC')
      else
        emit_event(line, now, 'delayed', queue, id, 'due', whole(due_at(due)), 'kind', kind)
      end
      if kind == 'delayed' then wake_for(line, '') end
    end
    ids[#ids + 1] = id
  else
    emit_event(line, now, 'duplicated', queue, id)
    ids[#ids + 1] = { id, text_of(line.data .. id) or '' }
  end
end
return ids
