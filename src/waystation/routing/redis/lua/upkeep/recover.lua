--- Take jobs back whose lease is over or whose worker is dead; their ids, where to go on, and the
--- ids of those that were given up.
--- keys  claims leases stalls stopping registered terms events
--- keys  active awaited deadletter delayed ended heads meta places routes serial signatures
--- keys  waiting wake unmoved
--- args  namespace now:str|int term:int max_stalls:int batch:int cursor:int workers... -> page
--- uses  keys_at instant_ms whole emit_event fenced index_foreign claim_of free_claim put_back
--- uses  dead_letter route_of
--- uses  dead_letter_unreadable lock_left check_keys end_stopping number_or
local line = keys_at(namespace)
now = instant_ms(now)
local over = fenced(terms, term)
if over then return over end
check_keys(line)
index_foreign(line, now)

local given_up = {}

local function take_back(id, record, why)
  local claim = claim_of(record)
  free_claim(line, id, claim)
  emit_event(line, now, 'stalled', claim.queue, id, 'worker', claim.worker, 'reason', why)
  local route, missing = route_of(line, id)
  if redis.call('EXISTS', line.data .. id) == 0 then route, missing = nil, 'gone' end
  if not route then return dead_letter_unreadable(line, now, id, missing, claim.queue) end
  local count = redis.call('HINCRBY', stalls, id, 1)
  if count > tonumber(max_stalls) then
    local sentence = 'given up after ' .. count .. ' workers fell silent while they held it'
    redis.call('HDEL', stalls, id)
    given_up[#given_up + 1] = id
    return dead_letter(line, now, id, claim.queue, cjson.encode({
      reason = 'STALLED', attempts = count, at = now, worker = claim.worker,
      error = { name = 'Stalled', message = sentence },
    }), claim.worker, count)
  end
  put_back(line, id, route, claim.turn)
  emit_event(line, now, 'waiting', claim.queue, id, 'prev', 'stalled')
end

-- Whoever claims with `claim_job` has no token to renew a lease with, and renews the lock instead.
local function is_kept_by_lock(id, record)
  local left = string.sub(record, 1, 8) == 'foreign.' and lock_left(line, id)
  if left then redis.call('ZADD', leases, whole(now + left), id) end
  return left
end

local taken = {}
for _ = 1, 10 do
  local over = redis.call('ZRANGEBYSCORE', leases, '-inf', whole(now), 'LIMIT', 0, batch)
  for _, id in ipairs(over) do
    local record = redis.call('HGET', claims, id)
    if not record then
      redis.call('ZREM', leases, id)
    elseif not is_kept_by_lock(id, record) then
      take_back(id, record, 'lease')
      taken[#taken + 1] = id
    end
  end
  if #over < tonumber(batch) or #taken >= tonumber(batch) then break end
end

-- Whoever ran a cancelled job, and has not said that it ended, takes no place for longer.
local told = redis.call('HSCAN', stopping, 0, 'COUNT', batch)[2]
for at = 1, #told, 2 do
  if number_or(0, string.match(told[at + 1], '^%S+')) <= now then end_stopping(line, told[at]) end
end

local silent, any = {}, false
for at = workers, #ARGV do
  local worker = ARGV[at]
  if redis.call('SISMEMBER', registered, worker) == 1 and redis.call('EXISTS', line.heartbeat .. worker) == 0 then
    silent[worker], any = true, true
  end
end
if not any then return { taken, '0', given_up } end
local page = redis.call('HSCAN', claims, cursor, 'COUNT', batch)
for at = 1, #page[2], 2 do
  local id, record = page[2][at], page[2][at + 1]
  if silent[claim_of(record).worker] and redis.call('HEXISTS', claims, id) == 1 then
    take_back(id, record, 'heartbeat')
    taken[#taken + 1] = id
  end
end
return { taken, page[1], given_up }
