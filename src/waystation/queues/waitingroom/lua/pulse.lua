--- How the room is set up and how it does, in one look.
--- keys  meta state positions elevated vip premium prequeue recovered admitted missed sessions model
--- args  now
--- uses  instant_us whole
local upper = { elevated, vip, premium }
local everybody = redis.call('ZCARD', positions)
local lanes = { everybody }
for lane = 1, 3 do
  local length = redis.call('ZCARD', upper[lane])
  lanes[lane + 1] = length
  lanes[1] = lanes[1] - length
end
return {
  whole(instant_us(now) / 1000), redis.call('HGETALL', meta), redis.call('HGETALL', state),
  redis.call('HGETALL', model), lanes, redis.call('ZCARD', prequeue), redis.call('ZCARD', recovered),
  redis.call('ZCARD', admitted), redis.call('ZCARD', missed), redis.call('SCARD', sessions),
}
