--- Let somebody take back a turn that was missed; they come in next, in the old order.
--- keys  meta state position owner positions elevated vip premium prequeue early_elevated early_vip
--- keys  early_premium recovered admitted missed sessions_expiry heartbeat events stats
--- args  queue id proof now:str|int -> texts
--- as    room queue
--- uses  instant_us format_int emit_event count visitor_status record_seconds
local set = redis.call('HMGET', meta, 'phase', 'starts_us', 'missed_s', 'events_cap')
local us = instant_us(now)
room.now, room.phase, room.cap, room.missed_s = us, set[1], set[4], tonumber(set[3]) or 600
room.starts = set[2] and format_int(set[2] / 1000)
room.upper, room.early = { elevated, vip, premium }, { early_elevated, early_vip, early_premium }
local known = redis.call('HGET', position, 'proof')
if not known then return { 'gone' } end
if known ~= proof then return { 'forbidden' } end
local found = visitor_status(room, id)
if found[1] ~= 'late' then return found end

-- The turn may be over without anybody having swept it away yet.
local unswept = redis.call('ZSCORE', admitted, id)
if unswept then
  redis.call('ZREM', admitted, id)
  redis.call('HINCRBY', state, 'owed', 1)
  count(stats, 'total_missed', 1)
  emit_event(room, 'missed', id)
end
local order = redis.call('ZSCORE', missed, id) or (unswept + room.missed_s * 1000000)
redis.call('ZREM', missed, id)
redis.call('ZADD', recovered, format_int(order), id)
local seconds = format_int(us / 1000000)
redis.call('ZADD', heartbeat, seconds, id)
redis.call('HSET', position, 'status', 'waiting', 'last_heartbeat', seconds)
local ttl = record_seconds(room)
redis.call('EXPIRE', position, ttl)
if redis.call('GET', owner) == id then redis.call('EXPIRE', owner, ttl) end
count(stats, 'total_recovered', 1)
emit_event(room, 'recovered', id)
return { 'returned', redis.call('ZRANK', recovered, id) }
