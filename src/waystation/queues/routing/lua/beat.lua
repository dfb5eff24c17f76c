--- Say that a worker is alive, and who it is; 1 when it was not known before.
--- keys  registered events
--- args  namespace now worker about ttl_ms
--- uses  line_at instant_ms makes_room whole tell
local line = line_at(namespace)
now = instant_ms(now)
-- The description comes with an open place for the instant, so that the server's clock fills it.
local described = string.gsub(about, '"lastSeen":0', '"lastSeen":' .. whole(now), 1)
makes_room('SREM', registered)
redis.call('SET', line.workers .. worker, described)
redis.call('SET', line.heartbeat .. worker, whole(now), 'PX', ttl_ms)
local new = redis.call('SADD', registered, worker)
if new == 1 then tell(line, now, 'joined', '', worker, 'worker', worker, 'about', described) end
return new
