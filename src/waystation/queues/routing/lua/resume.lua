--- Hand out jobs of a type again; 0 when they were not paused.
--- keys  paused events wake
--- args  namespace now queue
--- uses  line_at instant_ms tell
local gone = redis.call('SREM', paused, queue)
if gone == 1 then
  tell(line_at(namespace), instant_ms(now), 'resumed', queue, queue)
  redis.call('XADD', wake, 'MAXLEN', '~', 64, '*', 'queue', queue)
end
return gone
