--- Open the room once everybody of the pre-queue stands in line.
--- keys  meta state lottery prequeue early_elevated early_vip early_premium events
--- args  queue opened digest now:str|int -> bool
--- uses  instant_us format_int
if redis.call('HGET', meta, 'phase') ~= 'drawing' or redis.call('HGET', lottery, 'opened_us') ~= opened then
  return 0
end
local left = redis.call('ZCARD', prequeue) - (tonumber(redis.call('HGET', state, 'placed')) or 0)
if left > 0 then
  return redis.error_reply('WRONG_STATE ' .. left .. ' of the pre-queue have not been drawn')
end
local us = format_int(instant_us(now))
redis.call('UNLINK', prequeue, early_elevated, early_vip, early_premium)
redis.call('HSET', meta, 'phase', 'open', 'starts_us', opened)
redis.call('HSET', state, 'resumed_us', us)
redis.call('HDEL', state, 'placed')
redis.call('HSET', lottery, 'digest', digest, 'drawn_us', us)
redis.call('XADD', events, '*', 'v', 1, 'line', 'waitingroom', 'queue', queue, 'event', 'resumed',
  'at', format_int(us / 1000), 'reason', 'drawn', 'people', redis.call('HGET', lottery, 'count') or 0)
return 1
