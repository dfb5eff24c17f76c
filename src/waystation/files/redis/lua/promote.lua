--- Move retries that are due into their queues; how many there were.
--- keys  events wake lanes...
--- args  now:str|int events_cap:int most:int -> int
--- uses  instant_ms check_lanes promote_due wake_worker
check_lanes(lanes)
now = instant_ms(now)
local context = { events = events, events_cap = events_cap, at = string.format('%.0f', now) }
local promoted = 0
for lane = lanes, #KEYS, 2 do
  promoted = promoted + promote_due(context, lane, now, tonumber(most))
end
if promoted > 0 then wake_worker(wake) end
return promoted
