--- Make a job a dead letter, with its reason; the oldest makes room when the list is full.
--- uses  emit_event error_in whole queue_of number_or text_of note_end
local function dead_letter(line, now, id, queue, meta, worker, attempt)
  redis.call('LPUSH', line.deadletter, id)
  redis.call('HSET', line.meta, id, meta)
  redis.call('SET', line.status .. id, 'dead')
  local read, why = pcall(cjson.decode, meta)
  emit_event(line, now, 'dead', queue, id, 'worker', worker, 'attempt', attempt,
    'reason', read and why.reason or 'unknown', 'error', error_in(meta))
  local most = number_or(10000, text_of(line.deadletter .. ':cap'))
  -- A cap that was lowered by much is reached in several calls.
  line.may_drop = (line.may_drop or 200) + 1
  while line.may_drop > 0 and redis.call('LLEN', line.deadletter) > most do
    line.may_drop = line.may_drop - 1
    local oldest = redis.call('RPOP', line.deadletter)
    local route = redis.call('HGET', line.routes, oldest)
    redis.call('DEL', line.data .. oldest, line.status .. oldest, line.progress .. oldest,
      line.result .. oldest)
    for _, notes in ipairs({ line.meta, line.routes, line.stalls, line.fired }) do
      redis.call('HDEL', notes, oldest)
    end
    emit_event(line, now, 'removed', route and queue_of(string.sub(route, 2)) or '', oldest,
      'reason', 'the dead letter list is full')
    note_end(line, oldest, 'was dropped from the dead letter list, which was full')
  end
end

--- Make a job a dead letter whose data cannot be read, or is gone; an ended job's id is dropped.
--- uses  dead_letter emit_event whole text_of note_end
local function dead_letter_unreadable(line, now, id, why, queue)
  local status = text_of(line.status .. id)
  if why == 'gone' and (status == 'completed' or status == 'failed') then
    redis.call('HDEL', line.routes, id)
    redis.call('HDEL', line.stalls, id)
    note_end(line, id, status == 'completed' and '' or 'has failed')
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
