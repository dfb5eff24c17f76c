--- How long the rate limit lets nothing through, in milliseconds, when so many may start.
--- keys  limiter meta
--- args  max:str|int -> int
--- uses  whole limit_of
local most = limit_of(max ~= '' and max or redis.call('HGET', meta, 'max'))
local left = redis.call('PTTL', limiter)
if not most then return left end
local started = whole(redis.call('GET', limiter)) or 0
return left > 0 and started >= most and left or 0
