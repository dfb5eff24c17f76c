--- A job's id and the number of its next attempt; bytes that are no job get an id made of them.
local function id_and_attempt(raw)
  -- As our own producers write it: most jobs, which need not be decoded as a whole.
  local id, retries = string.match(raw, '^{"id":"([%w_%-]+)","filepath":".-",'
    .. '"filesize":%d+,"priority":"[^"]*","retries":(%d+)[,}]')
  if not id then
    local is_json, job = pcall(cjson.decode, raw)
    job = is_json and type(job) == 'table' and job or {}
    if type(job.id) == 'string' and job.id ~= '' and type(job.filepath) == 'string' then
      id, retries = job.id, job.retries
    else
      id = 'poison-' .. string.sub(redis.sha1hex(raw), 1, 16)
    end
  end
  return id, math.min(tonumber(retries) or 0, 2 ^ 31) + 1
end

--- Move retries that are due into their queue, a bounded number at a time.
--- uses  emit_event id_and_attempt
local function promote_due(context, lane, now, most)
  local queue, scheduled = KEYS[lane], KEYS[lane + 1]
  local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', string.format('%.0f', now),
    'LIMIT', 0, most)
  if #due == 0 then return 0 end
  redis.call('ZREM', scheduled, unpack(due))
  redis.call('LPUSH', queue, unpack(due))
  for _, raw in ipairs(due) do
    local id, try = id_and_attempt(raw)
    emit_event(context, queue, 'waiting', id, try, '')
  end
  return #due
end

--- Retry a job: its new payload goes into the queue, or is delayed until it is due.
--- uses  emit_event wake_worker
local function retry_later(context, now, worker, at)
  local id, attempt = ARGV[at], ARGV[at + 2]
  local lane = context.lanes + 2 * (ARGV[at + 1] - 1)
  local payload, delay = ARGV[at + 3], tonumber(ARGV[at + 4])
  local reason, why = ARGV[at + 5], ARGV[at + 6]
  local queue = KEYS[lane]
  emit_event(context, queue, 'retry', id, attempt, worker, 'delay', delay, 'reason', reason,
    'error', why)
  -- The same payload may have been added twice; the second must not replace the first one's place.
  if delay > 0 and redis.call('ZADD', KEYS[lane + 1], 'NX', string.format('%.0f', now + delay),
    payload) == 1 then return end
  redis.call('LPUSH', queue, payload)
  emit_event(context, queue, 'waiting', id, attempt + 1, '')
  wake_worker(context.wake)
end

--- Make a dead letter of a job.
--- uses  emit_event last_data
local function add_dead_letter(context, now, worker, at)
  local id, attempt = ARGV[at], ARGV[at + 2]
  local queue = KEYS[context.lanes + 2 * (ARGV[at + 1] - 1)]
  local payload, reason, why = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  redis.call('LPUSH', context.dead_letter, payload)
  redis.call('HSET', context.dead_letter_meta, id, cjson.encode({
    reason = reason, error = why, worker = worker, queue = queue, attempt = tonumber(attempt),
    at = now,
  }))
  emit_event(context, queue, 'dead', id, attempt, worker, 'reason', reason, 'error', why,
    last_data(context, payload))
end
