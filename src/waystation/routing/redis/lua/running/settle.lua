--- File outcomes away and claim the next jobs, in one step.
--- Each outcome is its kind, id and token, then: completed result attempt progressed;
--- retry data result delay route reason attempt; dead data result meta attempt; returned nothing.
--- keys  waiting active delayed claims leases routes stalls awaited held ended deadletter places
--- keys  heads signatures serial wake events limits paused meta
--- keys  stopping unmoved
--- args  namespace now:str|int token lease_ms:int want:int profile:bytes worker keep_s:int
--- args  outcomes:str|bytes|int... -> settlement
--- unchecked  all
--- uses  keys_at instant_ms makes_room whole emit_event claim_jobs claim_of text_of last_data
--- lazy  check_keys index_foreign promote_due uncount try_again give_up hand_back note_end
--- lazy  release_dependents end_stopping
local line = keys_at(namespace)
now = instant_ms(now)
makes_room('ZREM', leases)
line.now, line.asks_again = now, true
want = math.min(tonumber(want), 1000)

-- Every key is asked for something that only its own type answers before anything is written, so
-- that a call that fails has moved nothing; and no job is claimed whose outcome could not be stored.
redis.call('SCARD', active)
redis.call('HLEN', routes)
redis.call('XLEN', events)
redis.call('XLEN', wake)
redis.call('LLEN', deadletter)
redis.call('HLEN', meta)
local sizes = { completed = 3, retry = 6, dead = 4, returned = 0 }
local asked, at, is_rare = {}, outcomes, false
while at <= #ARGV do
  asked[#asked + 1] = ARGV[at + 1]
  is_rare = is_rare or ARGV[at] ~= 'completed'
  at = at + 3 + sizes[ARGV[at]]
end
local records, has_stalled, has_awaited = {}, false, false
if #asked > 0 then
  for place, record in ipairs(redis.call('HMGET', claims, unpack(asked))) do
    records[asked[place]] = record
  end
  has_stalled = redis.call('HLEN', stalls) > 0
  has_awaited = redis.call('SCARD', awaited) + redis.call('LLEN', ended) > 0
  redis.call('ZCARD', signatures)
else
  redis.call('HLEN', claims)
end
local first, is_due = {}, false
if want > 0 then
  first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  is_due = first[2] and tonumber(first[2]) <= now
  line.head_count = redis.call('ZCARD', heads)
  line.has_limits = redis.call('SCARD', paused) + redis.call('HLEN', limits) > 0
end
local is_foreign = redis.call('LLEN', waiting) > redis.call('ZCARD', places)
is_rare = is_rare or has_awaited or is_due or is_foreign
if is_rare then lazy().check_keys(line) end
if is_foreign then lazy().index_foreign(line, now) end

-- What every job needs is gathered over the batch and done in one command each.
local codes, freed, gone, over = {}, {}, {}, {}
at = outcomes
while at <= #ARGV do
  local kind, id, held, code = ARGV[at], ARGV[at + 1], ARGV[at + 2], 0
  local record = records[id]
  local claim = record and claim_of(record)
  if not claim or claim.token ~= held then
    local status = text_of(line.status .. id)
    code = record and -6 or (status == 'failed' and -3 or status and -2 or -1)
    lazy().end_stopping(line, held .. ' ' .. id)
  else
    records[id] = false
    freed[#freed + 1] = id
    gone[#gone + 1] = line.lock .. id
    if claim.counted then lazy().uncount(line, claim.queue) end
    if kind == 'completed' then
      redis.call('SET', line.result .. id, ARGV[at + 3], 'EX', keep_s)
      redis.call('SET', line.status .. id, 'completed', 'EX', keep_s)
      if ARGV[at + 5] == '1' then redis.call('EXPIRE', line.progress .. id, keep_s) end
      over[#over + 1] = id
      gone[#gone + 1] = line.data .. id
      emit_event(line, now, 'completed', claim.queue, id, 'worker', claim.worker,
        'attempt', ARGV[at + 4], 'took', whole(now - claim.since), last_data(line, id))
    elseif kind == 'retry' then
      lazy().try_again(line, now, id, claim, keep_s, at + 3)
    elseif kind == 'dead' then
      lazy().give_up(line, now, id, claim, keep_s, at + 3)
    else
      lazy().hand_back(line, now, id, claim)
    end
  end
  codes[#codes + 1] = code
  at = at + 3 + sizes[kind]
end
if #freed > 0 then
  redis.call('DEL', unpack(gone))
  redis.call('SREM', active, unpack(freed))
  redis.call('ZREM', leases, unpack(freed))
  redis.call('HDEL', claims, unpack(freed))
end
if #over > 0 then
  redis.call('HDEL', routes, unpack(over))
  if has_stalled then redis.call('HDEL', stalls, unpack(over)) end
  if has_awaited then
    for place, is_awaited in ipairs(redis.call('SMISMEMBER', awaited, unpack(over))) do
      if is_awaited == 1 then lazy().note_end(line, over[place], '') end
    end
  end
end
if has_awaited then lazy().release_dependents(line, now, 100) end

local claimed, limited_ms, unread, due_in, woken = {}, 0, false, '', '0-0'
if want > 0 then
  if is_due then lazy().promote_due(line, now, 100) end
  claimed, limited_ms, unread = claim_jobs(line, now, profile, worker, want, token, lease_ms)
end
if #claimed < 2 * want then
  if is_rare then first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES') end
  -- How long, not when: a worker's clock may be another.
  local due = tonumber(first[2])
  due_in = due and whole(math.max(due - now, 1)) or ''
  local newest = redis.call('XREVRANGE', wake, '+', '-', 'COUNT', 1)[1]
  woken = newest and newest[1] or '0-0'
end
return { codes, claimed, limited_ms, due_in, woken, unread and 1 or 0 }
