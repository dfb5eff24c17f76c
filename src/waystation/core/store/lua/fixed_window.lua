--- Let a call through when there is room for it in the window that the first call opened.
--- keys  state
--- args  limit width cost now
--- uses  instant_ms
local at = instant_ms(now)
local most, wanted, span = tonumber(limit), tonumber(cost), tonumber(width)
local kept = redis.call('HMGET', state, 'used', 'until')
local used, closes = tonumber(kept[1] or 0), tonumber(kept[2] or 0)

if closes <= at then
  used, closes = 0, at + span
end
if used + wanted > most then
  return { 0, math.max(most - used, 0), closes - at }
end

redis.call('HSET', state, 'used', used + wanted, 'until', string.format('%.0f', closes))
redis.call('PEXPIRE', state, closes - at)
return { 1, most - used - wanted, 0 }
