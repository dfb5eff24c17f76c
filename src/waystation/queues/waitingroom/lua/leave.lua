--- Let somebody go who no longer wants to wait.
--- keys  meta state position owner positions elevated vip premium prequeue early_elevated early_vip
--- keys  early_premium recovered admitted missed heartbeat events stats
--- args  queue id proof reason now
--- uses  instant_us whole tell count lane_of
local known = redis.call('HGET', position, 'proof')
if proof ~= '' and known ~= proof then return known and 'forbidden' or 'gone' end
local upper = { elevated, vip, premium }
local lane = lane_of(upper, id)
local turn = redis.call('ZREM', admitted, id)
local gone = turn + redis.call('ZREM', positions, id) + redis.call('ZREM', recovered, id)
  + redis.call('ZREM', missed, id) + redis.call('ZREM', prequeue, id)
for _, set in ipairs({ elevated, vip, premium, early_elevated, early_vip, early_premium, heartbeat }) do
  redis.call('ZREM', set, id)
end
if gone == 0 then return 'gone' end
if turn == 1 then redis.call('HINCRBY', state, 'owed', 1) end
if redis.call('GET', owner) == id then redis.call('DEL', owner) end
if known then
  redis.call('HSET', position, 'status', 'cancelled')
  redis.call('EXPIRE', position, 300)
end
count(stats, 'total_left', 1)
tell({ queue = queue, now = instant_us(now), events = events, cap = redis.call('HGET', meta, 'events_cap') },
  reason == '' and 'left' or 'removed', id, 'lane', lane, 'reason', reason)
return 'left'
