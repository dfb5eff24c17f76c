--- Let somebody in whose turn it is; asking again gives the same session.
--- keys  meta state position owner positions elevated vip premium prequeue early_elevated early_vip
--- keys  early_premium recovered admitted missed sessions sessions_expiry sessions_began stays session events
--- keys  stats
--- args  queue id proof user now:str|int -> texts
--- as    room queue
--- uses  instant_us format_int emit_event count visitor_status begin_session learn
local set = redis.call('HMGET', meta, 'phase', 'starts_us', 'missed_s', 'session_s', 'events_cap',
  'claim_window_s')
local us = instant_us(now)
room.now, room.phase, room.cap, room.missed_s, room.session_s =
  us, set[1], set[5], tonumber(set[3]) or 600, set[4]
room.starts = set[2] and format_int(set[2] / 1000)
room.upper, room.early = { elevated, vip, premium }, { early_elevated, early_vip, early_premium }
local known = redis.call('HMGET', position, 'proof', 'priority')
if not known[1] then return { 'gone' } end
if known[1] ~= proof then return { 'forbidden' } end
local found = visitor_status(room, id)
if found[1] ~= 'called' then return found end

local over = redis.call('ZSCORE', admitted, id)
local called = over / 1000000 - (tonumber(set[6]) or 120)
redis.call('ZREM', admitted, id)
local ends = begin_session(room, id)
if user ~= '' then redis.call('HSET', session, 'user_id', user) end
learn(stays, 'claims', 1)
learn(stays, 'delays', math.max(0, us / 1000000 - called))
local length = tonumber(set[4]) or 3600
redis.call('HSET', position, 'status', 'active', 'session_id', id, 'admitted_at', format_int(called))
redis.call('EXPIRE', position, length)
if redis.call('GET', owner) == id then redis.call('EXPIRE', owner, length) end
count(stats, 'total_claimed', 1)
emit_event(room, 'claimed', id, 'lane', known[2] or '0', 'delay', format_int(math.max(0, us / 1000 - called * 1000)))
return { 'begun', format_int(ends / 1000) }
