--- Throw the oldest dead letters away.
--- keys  dead_letter dead_letter_meta events
--- args  now events_cap most queue
--- uses  instant_ms emit_event id_and_attempt
now = instant_ms(now)
local context = { events = events, events_cap = events_cap, at = string.format('%.0f', now) }
local thrown = redis.call('RPOP', dead_letter, most) or {}
for _, raw in ipairs(thrown) do
  local id, try = id_and_attempt(raw)
  redis.call('HDEL', dead_letter_meta, id)
  emit_event(context, queue, 'removed', id, try, '')
end
-- A reason may be kept under a name that its letter does not emit_event.
if redis.call('LLEN', dead_letter) == 0 then redis.call('UNLINK', dead_letter_meta) end
return #thrown
