--- Move dead letters back into their queues. Each is the bytes of the letter, its id, lane and new
--- JSON; the reply is how many were still there.
--- keys  dead_letter dead_letter_meta events wake lanes...
--- args  now:str|int events_cap:int letters:str|bytes|int... -> int
--- uses  instant_ms check_lanes emit_event wake_worker
check_lanes(lanes)
now = instant_ms(now)
local context = { events = events, events_cap = events_cap, at = string.format('%.0f', now) }
local moved = 0
for at = letters, #ARGV, 4 do
  local id, queue = ARGV[at + 1], KEYS[lanes + 2 * (ARGV[at + 2] - 1)]
  if redis.call('LREM', dead_letter, -1, ARGV[at]) == 1 then
    redis.call('HDEL', dead_letter_meta, id)
    redis.call('LPUSH', queue, ARGV[at + 3])
    emit_event(context, queue, 'redriven', id, 1, '')
    moved = moved + 1
  end
end
if moved > 0 then wake_worker(wake) end
return moved
