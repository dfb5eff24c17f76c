--- File outcomes away and claim the next jobs, in one step.
--- Each outcome is its kind, id and token, then: completed result keep;
--- failed reason stacktrace keep attempts; retry reason stacktrace delay lifo; returned nothing.
--- keys  wait active prioritized delayed marker meta events pc stalled limiter completed failed
--- keys  paused metrics_completed metrics_failed
--- args  base now token lease_ms want worker max duration metrics outcomes...
--- uses  now_ms events_cap take_back file_finished push_delayed mark_delayed push_prioritized
--- uses  mark_ready waiting_list claim_jobs next_due record_metrics
local queue = {
  base = base, wait = wait, active = active, prioritized = prioritized, delayed = delayed,
  marker = marker, meta = meta, events = events, pc = pc, stalled = stalled, limiter = limiter,
  completed = completed, failed = failed, paused = paused,
}
now = now_ms(now)

-- What most jobs need is gathered over the batch and done in one command each.
local locks, released, scores = {}, {}, {}

local function do_what_was_gathered()
  if #locks > 0 then
    redis.call('DEL', unpack(locks))
    redis.call('SREM', stalled, unpack(released))
  end
  if #scores > 0 then redis.call('ZADD', completed, unpack(scores)) end
  locks, released, scores = {}, {}, {}
end

local function complete(id, token, at)
  local job, result, keep = base .. id, ARGV[at], ARGV[at + 1]
  local held = redis.call('GET', job .. ':lock')
  if redis.call('EXISTS', job .. ':dependencies', job .. ':unsuccessful') > 0 then
    return redis.call('EXISTS', job .. ':dependencies') == 1 and -4 or -9
  end
  if held ~= token then
    if redis.call('EXISTS', job) == 0 then return -1 end
    return held and -6 or -2
  end
  local known = redis.call('HMGET', job, 'atm', 'parentKey', 'deid')
  local made = (known[1] or 0) + 1
  if keep == '' and not known[2] and not known[3] then
    if redis.call('LREM', active, -1, id) == 0 then return -3 end
    locks[#locks + 1] = job .. ':lock'
    released[#released + 1] = id
    scores[#scores + 1] = now
    scores[#scores + 1] = id
    redis.call('HSET', job, 'returnvalue', result, 'finishedOn', now, 'atm', made)
  else
    do_what_was_gathered()
    local code = take_back(queue, id, token)
    if code ~= 0 then return code end
    file_finished(queue, id, 'completed', result, keep, now)
  end
  redis.call('XADD', events, '*', 'event', 'completed', 'jobId', id, 'returnvalue', result,
    'prev', 'active', 'attemptsMade', made)
  return 0
end

local function fail(id, token, at)
  local code = take_back(queue, id, token)
  if code ~= 0 then return code end
  local reason, attempts = ARGV[at], tonumber(ARGV[at + 3])
  redis.call('HSET', base .. id, 'stacktrace', ARGV[at + 1])
  redis.call('HDEL', base .. id, 'defa')
  local made = file_finished(queue, id, 'failed', reason, ARGV[at + 2], now)
  redis.call('XADD', events, '*', 'event', 'failed', 'jobId', id, 'failedReason', reason,
    'prev', 'active', 'attemptsMade', made)
  if made >= attempts then
    redis.call('XADD', events, '*', 'event', 'retries-exhausted', 'jobId', id, 'attemptsMade', made)
  end
  return 0
end

local function retry(id, token, at)
  local code = take_back(queue, id, token)
  if code ~= 0 then return code end
  local job, reason, delay = base .. id, ARGV[at], tonumber(ARGV[at + 2])
  redis.call('HSET', job, 'failedReason', reason, 'stacktrace', ARGV[at + 1])
  local made = redis.call('HINCRBY', job, 'atm', 1)
  if delay > 0 then
    redis.call('HSET', job, 'delay', delay)
    push_delayed(queue, id, now + delay)
    redis.call('XADD', events, '*', 'event', 'delayed', 'jobId', id,
      'delay', string.format('%.0f', now + delay))
    mark_delayed(queue)
  else
    local priority = tonumber(redis.call('HGET', job, 'priority') or 0)
    if priority > 0 then
      push_prioritized(queue, id, priority)
    else
      redis.call(ARGV[at + 3] == '1' and 'RPUSH' or 'LPUSH', waiting_list(queue), id)
    end
    mark_ready(queue)
    redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
  end
  redis.call('XADD', events, '*', 'event', 'retry', 'jobId', id, 'delay', delay,
    'attemptsMade', made, 'failedReason', reason)
  return 0
end

local function hand_back(id, token)
  local code = take_back(queue, id, token)
  if code ~= 0 then return code end
  local priority = tonumber(redis.call('HGET', base .. id, 'priority') or 0)
  if priority > 0 then
    redis.call('ZADD', prioritized, priority * 4294967296, id)
  else
    redis.call('RPUSH', waiting_list(queue), id)
  end
  mark_ready(queue)
  redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
  return 0
end

local steps = {
  completed = { complete, 2 }, failed = { fail, 4 }, retry = { retry, 4 }, returned = { hand_back, 0 },
}
local codes, done = {}, { completed = 0, failed = 0 }
local at = outcomes
while at <= #ARGV do
  local kind, step = ARGV[at], steps[ARGV[at]]
  local code = step[1](ARGV[at + 1], ARGV[at + 2], at + 3)
  codes[#codes + 1] = code
  if code == 0 and done[kind] then done[kind] = done[kind] + 1 end
  at = at + 3 + step[2]
end
do_what_was_gathered()
if #codes > 0 then redis.call('XTRIM', events, 'MAXLEN', '~', events_cap(meta)) end
if metrics ~= '' then
  local size = tonumber(metrics)
  if done.completed > 0 then record_metrics(metrics_completed, done.completed, now, size) end
  if done.failed > 0 then record_metrics(metrics_failed, done.failed, now, size) end
end

want = tonumber(want)
local claims, limited_ms, due = {}, 0, 0
if want > 0 then
  claims, limited_ms = claim_jobs(queue, want, token, lease_ms, worker, max, duration, now)
  if #claims == 0 and limited_ms == 0 then due = next_due(queue) end
end
if done.completed + done.failed > 0 and #claims == 0 and limited_ms == 0 and due == 0
  and redis.call('LLEN', wait) == 0 and redis.call('LLEN', active) == 0
  and redis.call('ZCARD', prioritized) == 0 then
  redis.call('XADD', events, '*', 'event', 'drained')
end
return { codes, claims, limited_ms, string.format('%.0f', due) }
