--- Make a job a dead letter, with its reason; the oldest makes room when the list is full.
--- uses  emit_event whole queue_of number_or text_of
local function dead_letter(line, now, id, queue, meta, worker, attempt)
  redis.call('LPUSH', line.deadletter, id)
  redis.call('HSET', line.meta, id, meta)
  redis.call('SET', line.status .. id, 'dead')
  local read, why = pcall(cjson.decode, meta)
  emit_event(line, now, 'dead', queue, id, 'worker', worker, 'attempt', attempt,
    'reason', read and why.reason or 'unknown')
  local most = number_or(10000, text_of(line.deadletter .. ':cap'))
  while redis.call('LLEN', line.deadletter) > most do
    local oldest = redis.call('RPOP', line.deadletter)
    local route = redis.call('HGET', line.routes, oldest)
    redis.call('DEL', line.data .. oldest, line.status .. oldest, line.progress .. oldest)
    redis.call('HDEL', line.meta, oldest)
    redis.call('HDEL', line.routes, oldest)
    emit_event(line, now, 'removed', route and queue_of(string.sub(route, 2)) or '', oldest,
      'reason', 'the dead letter list is full')
  end
end

--- Make a job a dead letter whose data cannot be read, or is gone; an ended job's id is dropped.
--- uses  dead_letter emit_event whole text_of
local function dead_letter_unreadable(line, now, id, why, queue)
  local status = text_of(line.status .. id)
  if why == 'gone' and (status == 'completed' or status == 'failed') then
    redis.call('HDEL', line.routes, id)
    redis.call('HDEL', line.stalls, id)
    emit_event(line, now, 'removed', queue or '', id, 'reason', 'it had ended: ' .. status)
    return
  end
  local reason, name = 'MALFORMED', 'Malformed'
  local sentence = 'the job data must be a JSON object with a type, of whole characters and at most 1000 levels'
  if why == 'gone' then
    reason, name = 'NO_DATA', 'NoData'
    sentence = 'there is nothing under ' .. line.data .. id
  end
  dead_letter(line, now, id, queue or '', cjson.encode({
    reason = reason, error = { name = name, message = sentence }, attempts = 0, at = now,
  }), '', 0)
end

--- Make dead letters of jobs that waited for one that will never complete, and of those behind.
--- uses  dead_letter queue_of whole emit_event
local function dead_letter_dependents(line, now, id, why)
  local ends = { id }
  while #ends > 0 do
    local ended = table.remove(ends)
    redis.call('SREM', line.awaited, ended)
    for _, dependent in ipairs(redis.pcall('SMEMBERS', line.dependents .. ended)) do
      if redis.call('HDEL', line.held, dependent) == 1 then
        local route = redis.call('HGET', line.routes, dependent) or 'N[""'
        dead_letter(line, now, dependent, queue_of(string.sub(route, 2)), cjson.encode({
          reason = 'DEPENDENCY', attempts = 0, at = now,
          error = { name = 'Dependency', message = 'job ' .. ended .. ' ' .. why },
        }), '', 0)
        ends[#ends + 1] = dependent
      end
    end
    redis.call('DEL', line.dependents .. ended)
  end
end

--- Take ids out of the dead letter list, in one walk however many they are; those that were there.
local function remove_dead_letters(line, wanted)
  local kept, found = {}, {}
  local all = redis.call('LRANGE', line.deadletter, 0, -1)
  for _, id in ipairs(all) do
    if wanted[id] then found[id] = true else kept[#kept + 1] = id end
  end
  if #kept == #all then return found end
  redis.call('DEL', line.deadletter)
  for first = 1, #kept, 1000 do
    redis.call('RPUSH', line.deadletter, unpack(kept, first, math.min(first + 999, #kept)))
  end
  return found
end

--- Let jobs go on that waited for this one, when it was the last they waited for.
--- uses  push_waiting emit_event whole queue_of
local function release_dependents(line, now, id)
  redis.call('SREM', line.awaited, id)
  for _, dependent in ipairs(redis.pcall('SMEMBERS', line.dependents .. id)) do
    local held = redis.call('HGET', line.held, dependent)
    if held then
      local count, delay = string.match(held, '^(%d+) (%d+)$')
      if tonumber(count) > 1 then
        redis.call('HSET', line.held, dependent, (count - 1) .. ' ' .. delay)
      else
        redis.call('HDEL', line.held, dependent)
        local route = redis.call('HGET', line.routes, dependent)
        if tonumber(delay) > 0 then
          redis.call('ZADD', line.delayed, whole(now + delay), dependent)
        else
          if push_waiting(line, dependent, route) then
            emit_event(line, now, 'waiting', queue_of(string.sub(route, 2)), dependent, 'prev', 'held')
          end
        end
      end
    end
  end
  redis.call('DEL', line.dependents .. id)
end
