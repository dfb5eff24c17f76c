--- Show that a worker is alive, and tell what it holds.
--- keys  heartbeat workers processing
--- args  now worker ttl_ms
--- uses  instant_ms makes_room
makes_room('SREM', workers)
redis.call('SET', heartbeat, '{"ts":' .. string.format('%.0f', instant_ms(now)) .. '}',
  'PX', ttl_ms)
redis.call('SADD', workers, worker)
return redis.call('LRANGE', processing, 0, -1)
