--- File outcomes away and claim the next jobs, in one step.
--- Each outcome is its kind, id and token, then: completed result keep;
--- failed reason stacktrace keep attempts cause; retry reason stacktrace delay lifo; returned nothing;
--- limited nothing: returned, and no job is claimed while the limit of the queue lasts.
--- keys  wait active prioritized delayed marker meta events pc stalled limiter completed failed
--- keys  paused metrics_completed metrics_failed absent
--- args  base now:str|int token lease_ms:int want:int worker max:str|int duration:str|int
--- args  metrics:str|int outcomes:str|bytes|int... -> settlement
--- as    queue base
--- unchecked  all
--- uses  claim_jobs
--- lazy  check_ties take_back file_finished finish_failed try_again hand_back promote_due
--- lazy  record_metrics set_aside release_grouped
if now == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
else
  now = tonumber(now)
end
want = tonumber(want)

-- Every key is asked for something that only its own type answers before anything is written, so
-- that a call that fails has moved nothing; and no job is claimed whose outcome could not be stored.
local rules = redis.call('HMGET', meta, 'paused', 'concurrency', 'max', 'duration',
  'opts.maxLenEvents', 'version', 'groups')
local suspects = redis.call('SCARD', stalled)
redis.call('ZCARD', completed)
redis.call('XLEN', events)
local first, is_due = {}, false
if want > 0 then
  queue.is_marked = redis.call('ZSCORE', marker, '0') ~= false
  if redis.call('LLEN', wait) < want then redis.call('ZCARD', prioritized) end
  if max ~= '' or rules[3] then redis.call('STRLEN', limiter) end
  first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  is_due = first[2] and tonumber(first[2]) < (now + 1) * 4096
end
if want == 0 then
  redis.call('LLEN', wait)
  redis.call('ZCARD', prioritized)
end
if metrics ~= '' then
  for _, key in ipairs({ metrics_completed, metrics_failed }) do
    redis.call('HLEN', key)
    redis.call('LLEN', key .. ':data')
  end
end
local known, locks, related, seen, at = {}, {}, {}, {}, outcomes
local has_ties, has_failed, goes_back = false, false, is_due
while at <= #ARGV do
  local kind, job = ARGV[at], base .. ARGV[at + 1]
  local fields = redis.call('HMGET', job, 'atm', 'parentKey', 'deid', 'ats', 'gid')
  known[#known + 1] = fields
  locks[#known] = job .. ':lock'
  if fields[2] or fields[3] then
    has_ties = true
    lazy().check_ties(queue, fields[2], redis.call('HGET', job, 'parent'), fields[3], seen,
      kind == 'completed' and #ARGV - outcomes)
  end
  if kind == 'completed' then
    related[#related + 1] = job .. ':dependencies'
    related[#related + 1] = job .. ':unsuccessful'
    at = at + 5
  elseif kind == 'failed' then
    has_failed, at = true, at + 8
  else
    goes_back, at = true, at + (kind == 'retry' and 7 or 3)
  end
end
-- One question for the whole batch: nearly always nobody has children, and everybody holds a lock.
local holders, has_children = {}, false
if #locks == 1 then
  holders[1] = redis.call('GET', locks[1])
else
  for first = 1, #locks, 1000 do
    local last = math.min(first + 999, #locks)
    for nth, holder in ipairs(redis.call('MGET', unpack(locks, first, last))) do
      holders[first + nth - 1] = holder
    end
  end
end
for first = 1, #related, 1000 do
  local last = math.min(first + 999, #related)
  has_children = redis.call('EXISTS', unpack(related, first, last)) > 0 or has_children
end
-- Those that are related may change each other, so each is looked at when its turn comes.
has_children = has_children or has_ties
if has_failed then redis.call('ZCARD', failed) end
if goes_back then
  if want == 0 then
    redis.call('ZCARD', delayed)
    redis.call('ZCARD', marker)
  end
  redis.call('ZCARD', prioritized)
  redis.call('STRLEN', pc)
end
if rules[1] then redis.call('LLEN', paused) end

-- What most completed jobs need is gathered over the batch and done in one command each.
-- As text, because the server writes out a number more slowly than it copies a text; for a single
-- job making the text costs more than it saves.
local stamp = #known > 1 and string.format('%.0f', now) or now
local taken = {}
if #related > 2 and not has_children then
  -- Most jobs end about in the order in which they began, so most of a batch are among the oldest
  -- and leave in one step. The others are looked for one by one.
  local wanted, many, others, first, passed = {}, 0, {}, nil, 0
  at = outcomes
  for nth, fields in ipairs(known) do
    local kind = ARGV[at]
    if kind == 'completed' then
      if ARGV[at + 4] == '' and fields[4] and holders[nth] == ARGV[at + 2] then
        wanted[ARGV[at + 1]], many = true, many + 1
      end
      at = at + 5
    else
      at = at + (kind == 'failed' and 8 or kind == 'retry' and 7 or 3)
    end
  end
  local oldest = many > 0 and redis.call('LRANGE', active, -math.min(2 * many, 1000), -1) or {}
  for place = #oldest, 1, -1 do
    local id = oldest[place]
    -- An id that is there twice keeps its newer place, as LREM leaves it.
    if wanted[id] then
      wanted[id], taken[id], first, passed = nil, true, place, #others
    else
      others[#others + 1] = id
    end
  end
  if first then redis.call('LTRIM', active, 0, first - #oldest - 2) end
  if passed > 0 then
    local back = {}
    for place = passed, 1, -1 do back[#back + 1] = others[place] end
    redis.call('RPUSH', active, unpack(back))
  end
end
local unlocked, released, scores, completed_now = {}, {}, {}, {}
local codes, completions, failures, held_ms, any, has_limits = {}, 0, 0, 0, false, nil
at = outcomes
while at <= #ARGV do
  local kind, id, lease = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local nth, code = #codes + 1, 0
  local held, fields = holders[nth], known[nth]
  if kind == 'completed' then
    local job, result, keep = base .. id, ARGV[at + 3], ARGV[at + 4]
    at = at + 5
    if has_children and redis.call('EXISTS', job .. ':dependencies', job .. ':unsuccessful') > 0 then
      code = redis.call('EXISTS', job .. ':dependencies') == 1 and -4 or -9
    elseif held ~= lease then
      code = redis.call('EXISTS', job) == 0 and -1 or held and -6 or -2
    elseif not fields[4] then
      -- Every claim is counted there, so the job itself is gone.
      code = -1
    else
      local made = fields[1] and string.format('%.0f', (tonumber(fields[1]) or 0) + 1) or '1'
      if keep == '' and not fields[2] and not fields[3] then
        if taken[id] then
          taken[id] = nil
        elseif redis.call('LREM', active, '-1', id) == 0 then
          code = -3
        end
        if code == 0 then
          unlocked[#unlocked + 1] = locks[nth]
          released[#released + 1] = id
          scores[#scores + 1] = stamp
          scores[#scores + 1] = id
          redis.call('HSET', job, 'returnvalue', result, 'finishedOn', stamp, 'atm', made)
          if fields[5] then
            if has_limits == nil then has_limits = redis.call('EXISTS', base .. 'groups:settings') == 1 end
            if has_limits then lazy().release_grouped(queue, id, fields[5]) end
          end
        end
      else
        -- What is kept of earlier jobs may depend on those gathered so far.
        for first = 1, #scores, 2000 do
          redis.call('ZADD', completed, unpack(scores, first, math.min(first + 1999, #scores)))
        end
        scores = {}
        code = lazy().take_back(queue, id, lease, held)
        if code == 0 then lazy().file_finished(queue, id, 'completed', result, keep, now) end
      end
      if code == 0 then
        completions = completions + 1
        completed_now[#completed_now + 1] = { id, result, made }
      end
    end
  elseif kind == 'failed' then
    code = lazy().finish_failed(queue, id, lease, ARGV[at + 3], ARGV[at + 4], ARGV[at + 5],
      tonumber(ARGV[at + 6]), ARGV[at + 7], now, held)
    if code == 0 then failures = failures + 1 end
    at = at + 8
  elseif kind == 'retry' then
    code = lazy().try_again(queue, id, lease, ARGV[at + 3], ARGV[at + 4],
      tonumber(ARGV[at + 5]), ARGV[at + 6] == '1', now, held)
    at = at + 7
  else
    code = lazy().hand_back(queue, id, lease, held)
    if kind == 'limited' then held_ms = math.max(redis.call('PTTL', limiter), 0) end
    at = at + 3
  end
  codes[#codes + 1] = code
  any = any or code == 0
end
for first = 1, #unlocked, 1000 do
  local last = math.min(first + 999, #unlocked)
  redis.call('DEL', unpack(unlocked, first, last))
  if suspects > 0 then redis.call('SREM', stalled, unpack(released, first, last)) end
end
for first = 1, #scores, 2000 do
  redis.call('ZADD', completed, unpack(scores, first, math.min(first + 1999, #scores)))
end
local cap = rules[5]
if cap and cap ~= '10000' then
  -- Another client may have written anything there, and jobs must go on.
  cap = tonumber(cap)
  cap = cap and cap >= 0 and cap <= 2 ^ 31 and math.floor(cap)
end
cap = cap or '10000'
for nth, each in ipairs(completed_now) do
  if nth < #completed_now then
    redis.call('XADD', events, '*', 'event', 'completed', 'jobId', each[1], 'returnvalue', each[2],
      'prev', 'active', 'attemptsMade', each[3])
  else
    redis.call('XADD', events, 'MAXLEN', '~', cap, '*', 'event', 'completed', 'jobId', each[1],
      'returnvalue', each[2], 'prev', 'active', 'attemptsMade', each[3])
  end
end
if metrics ~= '' then
  local size = tonumber(metrics)
  if completions > 0 then lazy().record_metrics(metrics_completed, completions, now, size) end
  if failures > 0 then lazy().record_metrics(metrics_failed, failures, now, size) end
end
if #codes > #completed_now then redis.call('XTRIM', events, 'MAXLEN', '~', cap) end

local claims, limited_ms, due_in, group_ms = {}, held_ms, 0, 0
if want > 0 and held_ms == 0 then
  -- A job that was taken off it has shown that this is a list.
  if not any then redis.call('LLEN', active) end
  if is_due then lazy().promote_due(queue, now) end
  if goes_back or has_ties then first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES') end
  claims, limited_ms, group_ms = claim_jobs(queue, rules, want, token, lease_ms, worker, max, duration, stamp)
  -- BullMQ 5 may have opened the queue after another client had paused it.
  if rules[1] then lazy().set_aside(queue, rules[6], 1000) end
  -- How long, not when: a worker's clock may be another.
  if #claims == 0 and limited_ms == 0 and first[2] then
    due_in = math.max(math.floor(first[2] / 4096) - now, 1)
  end
  -- A group that is held comes back by itself.
  if #claims == 0 and (group_ms or 0) > 0 then
    due_in = due_in > 0 and math.min(due_in, group_ms) or group_ms
  end
end
-- A queue that is paused is not drained, whether or not anything waits, as with Node.
if completions + failures > 0 and #claims == 0 and limited_ms == 0 and due_in == 0 and not rules[1]
  and redis.call('LLEN', wait) == 0 and redis.call('LLEN', active) == 0
  and redis.call('ZCARD', prioritized) == 0 and redis.call('EXISTS', base .. 'de') == 0 then
  redis.call('XADD', events, '*', 'event', 'drained')
end
return { codes, claims, limited_ms, due_in, now }
