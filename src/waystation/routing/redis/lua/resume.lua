--- Hand out jobs of a type again; 0 when they were not paused.
--- keys  paused events wake
--- args  namespace now queue
--- uses  line_at instant_ms tell wake_for
local line = line_at(namespace)
local gone = redis.call('SREM', paused, queue)
if gone == 1 then
  tell(line, instant_ms(now), 'resumed', queue, queue)
  wake_for(line, queue)
end
return gone
