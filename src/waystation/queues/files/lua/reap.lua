--- Take jobs back from a worker, if it has been silent for longer than its heartbeat lasts.
--- Each is its kind and the bytes in the worker's list, its id, lane and attempt, then:
--- retry payload delay reason; dead payload reason error.
--- keys  processing heartbeat workers dead_letter dead_letter_meta events wake lanes...
--- args  now worker events_cap taken...
--- uses  instant_ms tell try_again bury
if redis.call('EXISTS', heartbeat) == 1 then return -1 end
now = instant_ms(now)
local place = {
  lanes = lanes, events = events, wake = wake,
  dead_letter = dead_letter, dead_letter_meta = dead_letter_meta,
}
local moved = 0
for at = taken, #ARGV, 8 do
  if redis.call('LREM', processing, -1, ARGV[at + 1]) == 1 then
    local queue = KEYS[lanes + 2 * (ARGV[at + 3] - 1)]
    tell(events, now, queue, 'stalled', ARGV[at + 2], ARGV[at + 4], worker)
    local step = ARGV[at] == 'retry' and try_again or bury
    step(place, now, worker, at + 2)
    moved = moved + 1
  end
end
if redis.call('LLEN', processing) == 0 and redis.call('SREM', workers, worker) == 1 then
  redis.call('XADD', events, '*', 'v', 1, 'line', 'files', 'queue', KEYS[lanes], 'event', 'lost',
    'at', string.format('%.0f', now), 'worker', worker)
end
redis.call('XTRIM', events, 'MAXLEN', '~', events_cap)
return moved
