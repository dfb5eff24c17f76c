--- Delete the oldest dead letters; how many.
--- keys  dead_letter dead_letter_meta events
--- args  now:str|int events_cap:int most:int queue -> int
--- uses  instant_ms emit_event id_and_attempt
now = instant_ms(now)
local context = { events = events, events_cap = events_cap, at = string.format('%.0f', now) }
local deleted = redis.call('RPOP', dead_letter, most) or {}
for _, raw in ipairs(deleted) do
  local id, try = id_and_attempt(raw)
  redis.call('HDEL', dead_letter_meta, id)
  emit_event(context, queue, 'removed', id, try, '')
end
-- A reason may be stored under an id that its letter does not have.
if redis.call('LLEN', dead_letter) == 0 then redis.call('UNLINK', dead_letter_meta) end
return #deleted
