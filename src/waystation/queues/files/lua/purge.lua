--- Throw the oldest dead letters away.
--- keys  dead_letter dead_letter_meta events
--- args  now events_cap most queue
--- uses  instant_ms tell name_and_tries
now = instant_ms(now)
local thrown = redis.call('RPOP', dead_letter, most) or {}
for _, raw in ipairs(thrown) do
  local id, try = name_and_tries(raw)
  redis.call('HDEL', dead_letter_meta, id)
  tell(events, now, queue, 'removed', id, try, '')
end
if #thrown > 0 then redis.call('XTRIM', events, 'MAXLEN', '~', events_cap) end
return #thrown
