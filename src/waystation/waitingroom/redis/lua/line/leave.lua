--- Let somebody go who no longer wants to wait.
--- keys  meta state position owner positions elevated vip premium prequeue early_elevated early_vip
--- keys  early_premium recovered admitted missed sessions_expiry heartbeat stays events stats
--- args  queue id proof reason now:str|int -> word
--- as    room queue
--- uses  instant_us format_int emit_event count lane_of visitor_status learn
local known = redis.call('HGET', position, 'proof')
if proof ~= '' and known ~= proof then return known and 'forbidden' or 'gone' end
local set = redis.call('HMGET', meta, 'phase', 'missed_s', 'events_cap', 'rejoin_s')
room.now, room.phase, room.cap, room.missed_s = instant_us(now), set[1], set[3], tonumber(set[2]) or 600
room.upper, room.early = { elevated, vip, premium }, { early_elevated, early_vip, early_premium }
local found = visitor_status(room, id)[1]
if found == 'gone' or found == 'inside' then
  -- Whoever left of their own accord and is removed now does not come back.
  if reason ~= '' then redis.call('HDEL', position, 'left_us') end
  return 'gone'
end
-- The lots are drawn among as many as were counted; whoever left now would be missing in the proof.
if room.phase == 'drawing' and redis.call('ZSCORE', prequeue, id) then
  return redis.error_reply('WRONG_STATE lots are being drawn; leave when they are')
end

-- What it takes to have the same place again; a turn, missed or not, is the next one.
local from, order = 'line', redis.call('ZSCORE', positions, id)
if not order then from, order = 'early', redis.call('ZSCORE', prequeue, id) end
if not order then
  local over = redis.call('ZSCORE', admitted, id)
  from = 'next'
  order = over and format_int(over + room.missed_s * 1000000)
    or redis.call('ZSCORE', recovered, id) or redis.call('ZSCORE', missed, id)
end
local lane = lane_of(from == 'early' and room.early or room.upper, id)
if found == 'waiting' then learn(stays, 'gone', 1) end
local turn = redis.call('ZREM', admitted, id)
for _, from in ipairs({ positions, elevated, vip, premium, prequeue, early_elevated, early_vip,
  early_premium, recovered, missed, heartbeat }) do
  redis.call('ZREM', from, id)
end
if turn == 1 then redis.call('HINCRBY', state, 'owed', 1) end
if redis.call('GET', owner) == id then redis.call('DEL', owner) end
if known then
  local rejoin_s = tonumber(set[4]) or 120
  redis.call('HSET', position, 'status', 'cancelled')
  if reason == '' and rejoin_s > 0 then
    redis.call('HSET', position, 'left_us', format_int(room.now), 'left_from', from, 'left_order', order,
      'left_lane', lane)
  end
  redis.call('EXPIRE', position, math.max(300, rejoin_s))
end
count(stats, 'total_left', 1)
emit_event(room, reason == '' and 'left' or 'removed', id, 'lane', lane, 'reason', reason)
return 'left'
