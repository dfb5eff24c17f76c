--- Begin a session at once, if nobody waits and there are a turn and a seat for it.
--- keys  meta position owner positions elevated vip premium prequeue early_elevated early_vip
--- keys  early_premium recovered admitted missed sessions sessions_expiry sessions_began session
--- keys  tokens last_update events stats theirs...
--- args  queue id visitor proof agent network now:str|int -> entered
--- as    room queue
--- uses  instant_us format_int emit_event count fill_bucket visitor_status begin_session count_newcomer
local set = redis.call('HMGET', meta, 'status', 'queueing_method', 'phase', 'waiting_page',
  'fail_open_us', 'invite_only', 'pow_bits', 'max_active', 'newcomers_per_minute', 'session_s',
  'missed_s', 'events_cap', 'admission_rate', 'burst', 'ramp_from', 'ramp_us', 'ramp_s',
  'unproven_s')
if not set[1] and not set[3] then return { 'wait' } end
local us = instant_us(now)
local page, status = set[4] or 'automatic', set[1] or 'active'
local free = page == 'off' or (tonumber(set[5]) or 0) > us
-- Whoever has to show an invitation or to work for a place does that on the page.
if (page == 'always' or set[6] == '1' or (tonumber(set[7]) or 0) > 0) and not free then return { 'wait' } end
if status ~= 'active' or (set[3] or 'open') ~= 'open' or set[2] == 'reject' then return { 'wait' } end
free = free or set[2] == 'passthrough'

room.now, room.phase, room.cap, room.missed_s = us, set[3], set[12], tonumber(set[11]) or 600
room.upper, room.early = { elevated, vip, premium }, { early_elevated, early_vip, early_premium }
-- Whoever has a place already goes on with that one.
local kept = redis.call('GET', owner)
if kept and visitor_status(room, kept)[1] ~= 'gone' then return { 'wait' } end

local filled, burst
if not free then
  if redis.call('ZCARD', positions) + redis.call('ZCARD', prequeue) + redis.call('ZCARD', recovered) > 0 then
    return { 'wait' }
  end
  local taken = redis.call('SCARD', sessions) + redis.call('ZCARD', admitted)
  if taken >= (tonumber(set[8]) or 0) then return { 'wait' } end
  filled, burst = fill_bucket({
    rate = set[13], burst = set[14], ramp_from = set[15], ramp_us = set[16], ramp_s = set[17],
  }, us, tokens, last_update)
  if filled + 0.0000001 < 1 then return { 'wait' } end
  local per_minute = tonumber(set[9]) or 0
  local networks = {}
  for key = theirs, #KEYS do networks[#networks + 1] = KEYS[key] end
  if per_minute > 0 and count_newcomer(networks, us, id, per_minute) then return { 'wait' } end
  redis.call('SET', tokens, string.format('%.6f', math.min(burst, filled - 1)))
  redis.call('SET', last_update, string.format('%.6f', us / 1000000))
end

-- A program that keeps no cookies would take a seat with every request, so a seat is held for the
-- whole length only once somebody has come back to it.
local length = tonumber(set[10]) or 3600
room.session_s = math.min(length, tonumber(set[18]) or 300)
local ends = begin_session(room, id)
local second = format_int(us / 1000000)
redis.call('HSET', position, 'queue_id', queue, 'status', 'active', 'priority', 0, 'enqueued_at', second,
  'last_heartbeat', second, 'ip_hash', visitor, 'ua_hash', agent, 'proof', proof, 'session_id', id)
redis.call('EXPIRE', position, room.session_s)
redis.call('SET', owner, id, 'EX', room.session_s)
count(stats, 'total_passed', 1)
emit_event(room, 'claimed', id, 'lane', 0, 'reason', 'passed', 'network', network)
return { 'passed', format_int(ends / 1000) }
