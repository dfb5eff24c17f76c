--- Let a worker go that ends as it should; 0 when it was not there.
--- keys  registered events
--- args  namespace now worker
--- uses  line_at instant_ms tell
local line = line_at(namespace)
redis.call('DEL', line.workers .. worker, line.heartbeat .. worker)
local gone = redis.call('SREM', registered, worker)
if gone == 1 then tell(line, instant_ms(now), 'left', '', worker, 'worker', worker) end
return gone
