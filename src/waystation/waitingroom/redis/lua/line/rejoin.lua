--- Give somebody who left a short while ago the old place again.
--- keys  meta position owner positions elevated vip premium prequeue early_elevated early_vip
--- keys  early_premium recovered admitted missed sessions_expiry heartbeat stays events stats
--- args  queue id proof now:str|int -> texts
--- as    room queue
--- uses  instant_us format_int emit_event count visitor_status learn record_seconds
local set = redis.call('HMGET', meta, 'phase', 'starts_us', 'missed_s', 'events_cap', 'rejoin_s')
local us = instant_us(now)
room.now, room.phase, room.cap, room.missed_s = us, set[1], set[4], tonumber(set[3]) or 600
room.starts = set[2] and format_int(set[2] / 1000)
room.upper, room.early = { elevated, vip, premium }, { early_elevated, early_vip, early_premium }
local known = redis.call('HMGET', position, 'proof', 'left_us', 'left_from', 'left_order', 'left_lane')
if not known[1] or not set[1] then return { 'gone' } end
if known[1] ~= proof then return { 'forbidden' } end
-- Who asks again has the place already.
local found = visitor_status(room, id)
if found[1] ~= 'gone' or not known[2] then return found end
local from, order, lane = known[3], known[4], tonumber(known[5])
if known[2] + (tonumber(set[5]) or 120) * 1000000 <= us then return { 'gone' } end
-- The lots are drawn without them.
if from == 'early' and set[1] ~= 'prequeue' then return { 'gone' } end
-- Who has joined anew meanwhile has that place.
local kept = redis.call('GET', owner)
if kept and kept ~= id and visitor_status(room, kept)[1] ~= 'gone' then return { 'gone' } end

local ttl, seconds = record_seconds(room, from == 'early'), format_int(us / 1000000)
if from == 'early' then
  redis.call('ZADD', prequeue, order, id)
  if lane > 0 then redis.call('ZADD', room.early[lane], order, id) end
else
  redis.call('ZADD', heartbeat, seconds, id)
end
if from == 'next' then redis.call('ZADD', recovered, order, id) end
if from == 'line' then
  redis.call('ZADD', positions, order, id)
  if lane > 0 then redis.call('ZADD', room.upper[lane], order, id) end
  -- The lane's list may lack them by now; whoever gives turns finds that out from the sorted sets.
  learn(stays, 'gone', -1)
end
redis.call('HDEL', position, 'left_us', 'left_from', 'left_order', 'left_lane')
redis.call('HSET', position, 'status', 'waiting', 'last_heartbeat', seconds)
redis.call('EXPIRE', position, ttl)
redis.call('SET', owner, id, 'EX', ttl)
count(stats, 'total_rejoined', 1)
emit_event(room, 'recovered', id, 'lane', lane, 'reason', 'left')
room.lengths = nil
return visitor_status(room, id)
