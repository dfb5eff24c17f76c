--- Allow a call when the window that the first call opened has room for it.
--- keys  state
--- args  limit width now
--- uses  instant_ms
local at = instant_ms(now)
local most, span = tonumber(limit), tonumber(width)
local kept = redis.call('HMGET', state, 'used', 'until')
local used, closes = tonumber(kept[1] or 0), tonumber(kept[2] or 0)

if closes <= at then
  used, closes = 0, at + span
end
if used + 1 > most then
  return { 0, 0, closes - at }
end

redis.call('HSET', state, 'used', used + 1, 'until', string.format('%.0f', closes))
redis.call('PEXPIRE', state, closes - at)
return { 1, most - used - 1, 0 }
