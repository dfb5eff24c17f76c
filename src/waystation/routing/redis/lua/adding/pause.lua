--- Pause a type: workers get no jobs of it until it is resumed; 0 when it was paused.
--- keys  paused events unmoved
--- args  namespace now:str|int queue by -> bool
--- uses  keys_at instant_ms emit_event
-- First a write that takes no memory: after it a full server lets the others through.
redis.call('SREM', paused, '')
local new = redis.call('SADD', paused, queue)
if new == 1 then
  local who = by ~= '' and { 'by', by } or {}
  emit_event(keys_at(namespace), instant_ms(now), 'paused', queue, queue, unpack(who))
end
return new
