--- File outcomes away and claim the next jobs, in one step.
--- Each outcome is its kind, id and token, then: completed result keep;
--- failed reason stacktrace keep attempts; retry reason stacktrace delay lifo; returned nothing;
--- limited nothing: returned, and no job is claimed while the limit of the queue lasts.
--- keys  wait active prioritized delayed marker meta events pc stalled limiter completed failed
--- keys  paused metrics_completed metrics_failed
--- args  base now token lease_ms want worker max duration metrics outcomes...
--- uses  claim_jobs
--- rarely  take_back file_finished finish_failed try_again hand_back promote_due record_metrics
--- rarely  set_aside
local queue = {
  base = base, wait = wait, active = active, prioritized = prioritized, delayed = delayed,
  marker = marker, meta = meta, events = events, pc = pc, stalled = stalled, limiter = limiter,
  completed = completed, failed = failed, paused = paused,
}
if now == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
else
  now = tonumber(now)
end

-- What most completed jobs need is gathered over the batch and done in one command each.
local locks, released, scores, told = {}, {}, {}, {}
local codes, completions, failures, held_ms = {}, 0, 0, 0
local at = outcomes
while at <= #ARGV do
  local kind, id, lease = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local job, code = base .. id, 0
  if kind == 'completed' then
    local result, keep = ARGV[at + 3], ARGV[at + 4]
    at = at + 5
    local held = redis.call('GET', job .. ':lock')
    local children = redis.call('EXISTS', job .. ':dependencies', job .. ':unsuccessful')
    if children > 0 then
      code = redis.call('EXISTS', job .. ':dependencies') == 1 and -4 or -9
    elseif held ~= lease then
      code = redis.call('EXISTS', job) == 0 and -1 or held and -6 or -2
    else
      local known = redis.call('HMGET', job, 'atm', 'parentKey', 'deid', 'ats')
      local made = (tonumber(known[1]) or 0) + 1
      if not known[4] then
        -- Every claim is counted there, so the job itself is gone.
        code = -1
      elseif keep == '' and not known[2] and not known[3] then
        if redis.call('LREM', active, -1, id) == 0 then
          code = -3
        else
          locks[#locks + 1] = job .. ':lock'
          released[#released + 1] = id
          scores[#scores + 1] = now
          scores[#scores + 1] = id
          redis.call('HSET', job, 'returnvalue', result, 'finishedOn', now, 'atm', made)
        end
      else
        -- What is kept of earlier jobs may depend on those gathered so far.
        if #scores > 0 then redis.call('ZADD', completed, unpack(scores)) end
        scores = {}
        code = rarely().take_back(queue, id, lease)
        if code == 0 then rarely().file_finished(queue, id, 'completed', result, keep, now) end
      end
      if code == 0 then
        completions = completions + 1
        told[#told + 1] = { id, result, made }
      end
    end
  elseif kind == 'failed' then
    code = rarely().finish_failed(queue, id, lease, ARGV[at + 3], ARGV[at + 4], ARGV[at + 5],
      tonumber(ARGV[at + 6]), now)
    if code == 0 then failures = failures + 1 end
    at = at + 7
  elseif kind == 'retry' then
    code = rarely().try_again(queue, id, lease, ARGV[at + 3], ARGV[at + 4],
      tonumber(ARGV[at + 5]), ARGV[at + 6] == '1', now)
    at = at + 7
  else
    code = rarely().hand_back(queue, id, lease)
    if kind == 'limited' then held_ms = math.max(redis.call('PTTL', limiter), 0) end
    at = at + 3
  end
  codes[#codes + 1] = code
end
if #locks > 0 then
  redis.call('DEL', unpack(locks))
  redis.call('SREM', stalled, unpack(released))
end
if #scores > 0 then redis.call('ZADD', completed, unpack(scores)) end
-- Told when every job has its place: what cannot be told must not be lost.
for _, each in ipairs(told) do
  redis.call('XADD', events, '*', 'event', 'completed', 'jobId', each[1], 'returnvalue', each[2],
    'prev', 'active', 'attemptsMade', each[3])
end
if metrics ~= '' then
  local size = tonumber(metrics)
  if completions > 0 then rarely().record_metrics(metrics_completed, completions, now, size) end
  if failures > 0 then rarely().record_metrics(metrics_failed, failures, now, size) end
end
if #codes > 0 then
  local cap = tonumber(redis.call('HGET', meta, 'opts.maxLenEvents'))
  -- Whoever writes there may write anything, and jobs must go on.
  if not cap or cap < 0 or cap > 2 ^ 31 then cap = 10000 end
  redis.call('XTRIM', events, 'MAXLEN', '~', math.floor(cap))
end

local claims, limited_ms, due_in = {}, held_ms, 0
want = tonumber(want)
if want > 0 and held_ms == 0 then
  local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) < (now + 1) * 4096 then
    rarely().promote_due(queue, now)
    first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  end
  local paused_by
  claims, limited_ms, paused_by =
    claim_jobs(queue, want, token, lease_ms, worker, max, duration, now)
  -- BullMQ 5 may have come after somebody else has paused the queue.
  if paused_by then rarely().set_aside(queue, paused_by) end
  -- How long, not when: a worker's clock may be another.
  if #claims == 0 and limited_ms == 0 and first[2] then
    due_in = math.max(math.floor(first[2] / 4096) - now, 1)
  end
end
if completions + failures > 0 and #claims == 0 and limited_ms == 0 and due_in == 0
  and redis.call('LLEN', wait) == 0 and redis.call('LLEN', active) == 0
  and redis.call('ZCARD', prioritized) == 0 then
  redis.call('XADD', events, '*', 'event', 'drained')
end
return { codes, claims, limited_ms, due_in, now }
