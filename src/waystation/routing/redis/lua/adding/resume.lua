--- Resume a type; 0 when they were not paused.
--- keys  paused events wake unmoved
--- args  namespace now:str|int queue -> bool
--- uses  keys_at instant_ms emit_event wake_for
local line = keys_at(namespace)
local gone = redis.call('SREM', paused, queue)
if gone == 1 then
  emit_event(line, instant_ms(now), 'resumed', queue, queue)
  wake_for(line, queue)
end
return gone
