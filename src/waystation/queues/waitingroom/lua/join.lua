--- Give somebody a place in line, or the one they have.
--- keys  meta state positions elevated vip premium prequeue early_elevated early_vip early_premium
--- keys  normal_list elevated_list vip_list premium_list recovered admitted missed heartbeat
--- keys  sessions sessions_expiry session position owner newcomers events stats
--- args  queue id lane now proof visitor agent network metadata rate model
--- uses  instant_us whole tell count lane_length
--- rarely  standing begin_session
local set = redis.call('HMGET', meta, 'status', 'queueing_method', 'max_queue_size', 'phase',
  'starts_us', 'position_ttl_s', 'fail_open_us', 'newcomers_per_minute', 'missed_s', 'session_s',
  'events_cap')
local us = instant_us(now)
local number = tonumber(lane)
local room = {
  queue = queue, now = us, phase = set[4], events = events, cap = set[11],
  positions = positions, upper = { elevated, vip, premium }, prequeue = prequeue,
  early = { early_elevated, early_vip, early_premium }, recovered = recovered, admitted = admitted,
  missed = missed, sessions = sessions, sessions_expiry = sessions_expiry, session = session,
  missed_s = tonumber(set[9]) or 600, session_s = set[10],
  starts = set[5] and whole(set[5] / 1000),
}

local function refuse(reason, retry_ms)
  count(stats, 'total_refused', 1)
  tell(room, 'refused', id, 'reason', reason, 'lane', lane, 'network', network)
  return { 'refused', reason, retry_ms or 0 }
end

local kept = redis.call('GET', owner)
if kept then
  local found = rarely().standing(room, kept)
  if found[1] ~= 'gone' then return { 'kept', kept, unpack(found) } end
end

local status, method = set[1] or 'active', set[2]
if method == 'reject' then return refuse('rejected') end
if status == 'maintenance' or status == 'draining' or status == 'closed' then return refuse(status) end
local seconds = math.floor(us / 1000000)
local ttl = tonumber(set[6]) or 1800

local function describe(word)
  redis.call('HSET', position, 'queue_id', queue, 'status', word, 'priority', lane,
    'enqueued_at', whole(seconds), 'last_heartbeat', whole(seconds), 'ip_hash', visitor,
    'ua_hash', agent, 'proof', proof)
  if metadata ~= '' then redis.call('HSET', position, 'metadata', metadata) end
  redis.call('EXPIRE', position, ttl)
  redis.call('SET', owner, id, 'EX', ttl)
end

if method == 'passthrough' or (tonumber(set[7]) or 0) > us then
  ttl = tonumber(set[10]) or 3600
  describe('active')
  local ends = rarely().begin_session(room, id)
  count(stats, 'total_passed', 1)
  tell(room, 'claimed', id, 'lane', lane, 'reason', 'passed', 'network', network)
  return { 'passed', id, whole(ends / 1000) }
end

local early = set[4] == 'prequeue'
local total = redis.call('ZCARD', positions) + redis.call('ZCARD', prequeue)
local most = tonumber(set[3]) or 0
if most > 0 and total >= most then return refuse('full') end

local per_minute = tonumber(set[8]) or 0
if per_minute > 0 and network ~= '' then
  redis.call('ZREMRANGEBYSCORE', newcomers, '-inf', whole(us / 1000 - 60000))
  if redis.call('ZCARD', newcomers) >= per_minute then
    local oldest = redis.call('ZRANGE', newcomers, 0, 0, 'WITHSCORES')[2]
    return refuse('crowded', math.max(1, math.floor(oldest + 60000 - us / 1000)))
  end
  redis.call('ZADD', newcomers, whole(us / 1000), id)
  redis.call('EXPIRE', newcomers, 60)
end

-- A clock that never stands still or steps back: nobody shares a score, nobody overtakes by it.
local score = math.max(us, (tonumber(redis.call('HGET', state, 'last_us') or 0)) + 1)
redis.call('HSET', state, 'last_us', whole(score))
count(stats, 'total_enqueued', 1)
if total + 1 > tonumber(redis.call('HGET', stats, 'peak_queue_size') or 0) then
  redis.call('HSET', stats, 'peak_queue_size', total + 1)
end

if early then
  if set[5] then ttl = ttl + math.max(0, math.ceil(set[5] / 1000000) - seconds) end
  describe('waiting')
  redis.call('ZADD', prequeue, whole(score), id)
  if number > 0 then redis.call('ZADD', room.early[number], whole(score), id) end
  tell(room, 'delayed', id, 'lane', lane, 'seq', whole(score), 'network', network, 'agent', agent)
  return { 'joined', id, 'prequeued', number, room.starts or '', total + 1 }
end

describe('waiting')
local lists = { [0] = normal_list, elevated_list, vip_list, premium_list }
redis.call('RPUSH', lists[number], id)
redis.call('ZADD', positions, whole(score), id)
if number > 0 then redis.call('ZADD', room.upper[number], whole(score), id) end
redis.call('ZADD', heartbeat, whole(seconds), id)
local length = lane_length(positions, room.upper, number)
tell(room, 'waiting', id, 'lane', lane, 'seq', whole(score), 'ahead', length - 1, 'waiting', total + 1,
  'active', redis.call('SCARD', sessions), 'rate', rate, 'model', model, 'network', network,
  'agent', agent)
if set[4] == 'drawing' then
  return { 'joined', id, 'prequeued', number, room.starts or '', total + 1 }
end
return { 'joined', id, 'waiting', number, whole(score), length - 1, length }
