--- Take jobs back from a dead worker. Each is its kind and the bytes in the worker's list, its id,
--- lane and attempt, then: retry payload delay reason error; dead payload reason error. The reply has 1
--- for each that was still there; there is none when the worker is alive.
--- keys  processing heartbeat workers dead_letter dead_letter_meta events wake history lanes...
--- args  now:str|int worker events_cap:int taken:str|bytes|int... -> list[int]|None
--- unchecked  history
--- uses  instant_ms check_lanes emit_event retry_later add_dead_letter
if redis.call('EXISTS', heartbeat) == 1 then return false end
check_lanes(lanes)
now = instant_ms(now)
local context = {
  lanes = lanes, events = events, events_cap = events_cap, wake = wake,
  at = string.format('%.0f', now),
  dead_letter = dead_letter, dead_letter_meta = dead_letter_meta, history = history,
}
local moved = {}
local at = taken
while at <= #ARGV do
  local was_there = redis.call('LREM', processing, -1, ARGV[at + 1])
  if was_there == 1 then
    local queue = KEYS[lanes + 2 * (ARGV[at + 3] - 1)]
    emit_event(context, queue, 'stalled', ARGV[at + 2], ARGV[at + 4], worker)
    local step = ARGV[at] == 'retry' and retry_later or add_dead_letter
    step(context, now, worker, at + 2)
  end
  moved[#moved + 1] = was_there
  at = at + (ARGV[at] == 'retry' and 9 or 8)
end
if redis.call('LLEN', processing) == 0 and redis.call('SREM', workers, worker) == 1 then
  redis.call('XADD', events, 'MAXLEN', '~', events_cap, '*', 'v', 1, 'line', 'files',
    'queue', KEYS[lanes], 'event', 'lost', 'at', context.at, 'worker', worker)
end
return moved
