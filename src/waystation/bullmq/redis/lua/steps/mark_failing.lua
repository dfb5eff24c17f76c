--- Let a job that a worker holds only be undone from now on; the reply has 0 and the reason that
--- counts, or an error code.
--- keys  job lock
--- args  token reason stacktrace:bytes undos:int -> stepped
if redis.call('HLEN', job) == 0 then return { -1 } end
local held = redis.call('GET', lock)
if held ~= token then return { held and -6 or -2 } end
if redis.call('HSETNX', job, 'failing', reason) == 1 then
  -- An earlier attempt may have come further than the last one.
  local given = tonumber(redis.call('HGET', job, 'given')) or 0
  redis.call('HSET', job, 'stacktrace', stacktrace, 'undos', math.max(given, undos))
end
return { 0, redis.call('HGET', job, 'failing') }
