--- Let a call through when there is room for it among those of the window that ends now.
--- keys  state
--- args  limit width cost now
--- uses  instant_ms
local at = instant_ms(now)
local most, wanted, span = tonumber(limit), tonumber(cost), tonumber(width)
local since = string.format('%.0f', at - span)
local used = redis.call('ZCOUNT', state, '(' .. since, '+inf')

if used + wanted > most then
  -- The call fits once as many of the oldest have left the window as stand in its way.
  local last = used + wanted - most - 1
  local found = redis.call('ZRANGEBYSCORE', state, '(' .. since, '+inf', 'WITHSCORES', 'LIMIT', last, 1)
  return { 0, math.max(most - used, 0), math.max(tonumber(found[2]) + span - at, 1) }
end

redis.call('ZREMRANGEBYSCORE', state, '-inf', since)
local score = string.format('%.0f', at)
-- Calls of one millisecond leave together, so their number makes a name that is free.
local same = redis.call('ZCOUNT', state, score, score)
for i = 1, wanted do
  redis.call('ZADD', state, score, score .. '-' .. string.format('%.0f', same + i))
end
redis.call('PEXPIRE', state, span)
return { 1, most - used - wanted, 0 }
