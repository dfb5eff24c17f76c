--- File outcomes away and claim the next jobs, in one step.
--- Each outcome is its kind, id and token, then: completed result attempt progressed;
--- retry data result delay route reason attempt; dead data result meta attempt; returned nothing.
--- keys  waiting active delayed claims leases routes stalls awaited held deadletter places heads
--- keys  signatures serial wake events limits paused meta
--- args  namespace now token lease_ms want profile worker keep_s outcomes...
--- unchecked  serial
--- uses  keys_at instant_ms check_serial makes_room whole emit_event claim_jobs claim_of queue_of
--- lazy  index_foreign promote_due uncount push_waiting put_back dead_letter release_dependents
--- lazy  route_of
--- lazy  dead_letter_unreadable
local line = keys_at(namespace)
now = instant_ms(now)
check_serial(line)
makes_room('ZREM', leases)
line.now = now
if redis.call('LLEN', waiting) > redis.call('ZCARD', places) then lazy().index_foreign(line, now) end

local sizes = { completed = 3, retry = 6, dead = 4, returned = 0 }
local asked, at = {}, outcomes
while at <= #ARGV do
  asked[#asked + 1] = ARGV[at + 1]
  at = at + 3 + sizes[ARGV[at]]
end

local records = {}
if #asked > 0 then
  for place, record in ipairs(redis.call('HMGET', claims, unpack(asked))) do
    records[asked[place]] = record
  end
end

-- What every job needs is gathered over the batch and done in one command each.
local freed, locks, over, spent = {}, {}, {}, {}

local function free(id, claim)
  records[id] = false
  freed[#freed + 1] = id
  locks[#locks + 1] = line.lock .. id
  if claim.counted then lazy().uncount(line, claim.queue) end
end

local function do_what_was_gathered()
  if #freed == 0 then return end
  redis.call('DEL', unpack(locks))
  redis.call('SREM', active, unpack(freed))
  redis.call('ZREM', leases, unpack(freed))
  redis.call('HDEL', claims, unpack(freed))
  if #over > 0 then
    redis.call('DEL', unpack(spent))
    redis.call('HDEL', routes, unpack(over))
    redis.call('HDEL', stalls, unpack(over))
  end
end

local steps = {}

function steps.completed(id, claim, first)
  local result, attempt = ARGV[first], ARGV[first + 1]
  redis.call('SET', line.result .. id, result, 'EX', keep_s)
  redis.call('SET', line.status .. id, 'completed', 'EX', keep_s)
  if ARGV[first + 2] == '1' then redis.call('EXPIRE', line.progress .. id, keep_s) end
  over[#over + 1] = id
  spent[#spent + 1] = line.data .. id
  emit_event(line, now, 'completed', claim.queue, id, 'worker', claim.worker, 'attempt', attempt,
    'took', whole(now - claim.since))
end

function steps.retry(id, claim, first)
  local delay, route = tonumber(ARGV[first + 2]), ARGV[first + 3]
  redis.call('SET', line.data .. id, ARGV[first])
  redis.call('SET', line.result .. id, ARGV[first + 1], 'EX', keep_s)
  if route ~= '' then
    redis.call('HSET', routes, id, route)
  else
    route = lazy().route_of(line, id)
  end
  emit_event(line, now, 'retry', claim.queue, id, 'worker', claim.worker, 'attempt', ARGV[first + 5],
    'delay', ARGV[first + 2], 'reason', ARGV[first + 4], 'took', whole(now - claim.since))
  if delay > 0 then
    redis.call('ZADD', delayed, whole(now + delay), id)
    redis.call('SET', line.status .. id, 'delayed')
    emit_event(line, now, 'delayed', claim.queue, id, 'due', whole(now + delay), 'kind', 'retry')
  elseif not route then
    lazy().dead_letter_unreadable(line, now, id, 'malformed', claim.queue)
  elseif lazy().push_waiting(line, id, route) then
    emit_event(line, now, 'waiting', claim.queue, id, 'prev', 'active')
  end
end

function steps.dead(id, claim, first)
  redis.call('SET', line.data .. id, ARGV[first])
  redis.call('SET', line.result .. id, ARGV[first + 1], 'EX', keep_s)
  emit_event(line, now, 'failed', claim.queue, id, 'worker', claim.worker, 'attempt', ARGV[first + 3],
    'took', whole(now - claim.since))
  lazy().dead_letter(line, now, id, claim.queue, ARGV[first + 2], claim.worker, ARGV[first + 3])
  redis.call('HDEL', stalls, id)
end

function steps.returned(id, claim)
  local route, why = lazy().route_of(line, id)
  emit_event(line, now, 'returned', claim.queue, id, 'worker', claim.worker)
  if not route then return lazy().dead_letter_unreadable(line, now, id, why, claim.queue) end
  lazy().put_back(line, id, route, claim.turn)
end

local codes = {}
at = outcomes
while at <= #ARGV do
  local kind, id, held = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local record = records[id]
  local claim = record and claim_of(record)
  if claim and claim.token == held then
    free(id, claim)
    steps[kind](id, claim, at + 3)
    codes[#codes + 1] = 0
  else
    codes[#codes + 1] = record and -6 or (redis.call('EXISTS', line.status .. id) == 1 and -2 or -1)
  end
  at = at + 3 + sizes[kind]
end
do_what_was_gathered()
if #over > 0 then
  for place, is_awaited in ipairs(redis.call('SMISMEMBER', awaited, unpack(over))) do
    if is_awaited == 1 then lazy().release_dependents(line, now, over[place]) end
  end
end

want = math.min(tonumber(want), 1000)
local claimed, limited_ms, unread = {}, 0, false
if want > 0 then
  local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= now then lazy().promote_due(line, now, 100) end
  claimed, limited_ms, unread = claim_jobs(line, now, profile, worker, want, token, lease_ms)
end
local due_in, woken = '', '0-0'
if #claimed < 2 * want then
  -- How long, not when: a worker's clock may be another.
  local due = tonumber(redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2])
  due_in = due and whole(math.max(due - now, 1)) or ''
  local newest = redis.call('XREVRANGE', wake, '+', '-', 'COUNT', 1)[1]
  woken = newest and newest[1] or '0-0'
end
return { codes, claimed, limited_ms, due_in, woken, unread and 1 or 0 }
