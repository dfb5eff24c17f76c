--- Append a part to the output of a job, unless an earlier attempt has: its number, or an error code.
--- keys  job lock output
--- args  token number:int data:bytes keep_ms:int -> int
if redis.call('HLEN', job) == 0 then return -1 end
local held = redis.call('GET', lock)
if held ~= token then return held and -6 or -2 end
local last = tonumber(redis.call('HGET', job, 'parts')) or 0
if tonumber(number) <= last then return last end
redis.call('XADD', output, '*', 'part', data)
redis.call('PEXPIRE', output, keep_ms)
redis.call('HSET', job, 'parts', number)
return tonumber(number)
