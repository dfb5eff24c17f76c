--- Give a holder one of the places, or keep the one it has; places of the vanished become free.
--- keys  state
--- args  limit holder hold now
--- uses  instant_ms
local at = instant_ms(now)
local most, deadline = tonumber(limit), at + tonumber(hold)
local own = tonumber(redis.call('ZSCORE', state, holder) or 0)
local used = redis.call('ZCOUNT', state, '(' .. string.format('%.0f', at), '+inf')

if own <= at then
  if used >= most then
    local last = used - most
    local found = redis.call('ZRANGEBYSCORE', state, '(' .. string.format('%.0f', at), '+inf',
      'WITHSCORES', 'LIMIT', last, 1)
    return { 0, 0, tonumber(found[2]) - at }
  end
  used = used + 1
end

redis.call('ZREMRANGEBYSCORE', state, '-inf', string.format('%.0f', at))
redis.call('ZADD', state, string.format('%.0f', deadline), holder)
local latest = redis.call('ZRANGE', state, -1, -1, 'WITHSCORES')
redis.call('PEXPIRE', state, math.max(tonumber(latest[2]) - at, 1))
return { 1, math.max(most - used, 0), 0 }
