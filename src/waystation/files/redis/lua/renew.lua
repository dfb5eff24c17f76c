--- Renew a worker's heartbeat with the patterns of its handlers; returns the jobs it holds.
--- keys  heartbeat workers processing
--- args  now:str|int worker ttl_ms:int handlers -> list[bytes]
--- uses  instant_ms makes_room
makes_room('SREM', workers)
local at = '{"ts":' .. string.format('%.0f', instant_ms(now))
redis.call('SET', heartbeat, at .. (handlers ~= '' and ',"handlers":' .. handlers or '') .. '}',
  'PX', ttl_ms)
redis.call('SADD', workers, worker)
return redis.call('LRANGE', processing, 0, -1)
