--- How the room is set up and how it does, in one look.
--- keys  meta state positions elevated vip premium prequeue recovered admitted missed sessions model
--- keys  stays ratios
--- args  now:str|int -> Any
--- uses  instant_us format_int lane_lengths
local lengths = lane_lengths(positions, { elevated, vip, premium })
return {
  format_int(instant_us(now) / 1000), redis.call('HGETALL', meta), redis.call('HGETALL', state),
  redis.call('HGETALL', model), { lengths[0], lengths[1], lengths[2], lengths[3] },
  redis.call('ZCARD', prequeue), redis.call('ZCARD', recovered),
  redis.call('ZCARD', admitted), redis.call('ZCARD', missed), redis.call('SCARD', sessions),
  redis.call('HGETALL', stays), redis.call('HGETALL', ratios),
}
