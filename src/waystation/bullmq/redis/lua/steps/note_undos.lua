--- Remember how many functions an attempt of a job that a worker holds has given to undo it: the
--- most that any has, or an error code.
--- keys  job lock
--- args  token undos:int -> int
if redis.call('HLEN', job) == 0 then return -1 end
local held = redis.call('GET', lock)
if held ~= token then return held and -6 or -2 end
local most = math.max(tonumber(redis.call('HGET', job, 'given')) or 0, undos)
redis.call('HSET', job, 'given', most)
return most
