--- Show that a worker is alive and for which files it has handlers, and emit_event what it holds.
--- keys  heartbeat workers processing
--- args  now worker ttl_ms handlers
--- uses  instant_ms makes_room
makes_room('SREM', workers)
local at = '{"ts":' .. string.format('%.0f', instant_ms(now))
redis.call('SET', heartbeat, at .. (handlers ~= '' and ',"handlers":' .. handlers or '') .. '}',
  'PX', ttl_ms)
redis.call('SADD', workers, worker)
return redis.call('LRANGE', processing, 0, -1)
