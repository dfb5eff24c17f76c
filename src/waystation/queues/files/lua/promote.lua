--- Put jobs whose pause is over back into their queues.
--- keys  events wake lanes...
--- args  now most
--- uses  instant_ms promote_due rouse
now = instant_ms(now)
local promoted = 0
for lane = lanes, #KEYS, 2 do
  promoted = promoted + promote_due(KEYS[lane + 1], KEYS[lane], events, now, tonumber(most))
end
if promoted > 0 then rouse(wake) end
return promoted
