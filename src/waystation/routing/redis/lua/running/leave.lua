--- Remove a worker that has stopped from the registry; 0 when it was not there.
--- keys  registered events
--- keys  unmoved
--- args  namespace now:str|int worker -> bool
--- uses  keys_at instant_ms emit_event
local line = keys_at(namespace)
redis.call('DEL', line.workers .. worker, line.heartbeat .. worker)
local gone = redis.call('SREM', registered, worker)
if gone == 1 then emit_event(line, instant_ms(now), 'left', '', worker, 'worker', worker) end
return gone
