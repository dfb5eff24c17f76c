--- Remove jobs from where they are. Each is its state, bytes, id, lane and attempt, and the id of
--- its entry among the unmatched files. The reply has 1 for each that was still there.
--- keys  processing unmatched dead_letter dead_letter_meta events lanes...
--- args  now:str|int events_cap:int jobs:str|bytes|int... -> list[int]
--- uses  instant_ms check_lanes emit_event
check_lanes(lanes)
local context = { events = events, events_cap = events_cap,
  at = string.format('%.0f', instant_ms(now)) }
local removed = {}
for at = jobs, #ARGV, 6 do
  local state, raw, id, entry = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 5]
  local lane = lanes + 2 * (ARGV[at + 3] - 1)
  local was_there
  if state == 'delayed' then
    was_there = redis.call('ZREM', KEYS[lane + 1], raw)
  elseif state == 'unmatched' then
    was_there = redis.call('XDEL', unmatched, entry)
  else
    local places = { active = processing, failed = dead_letter }
    was_there = redis.call('LREM', places[state] or KEYS[lane], -1, raw)
  end
  if was_there == 1 then
    if state == 'failed' then redis.call('HDEL', dead_letter_meta, id) end
    emit_event(context, KEYS[lane], 'removed', id, ARGV[at + 4], '')
  end
  removed[#removed + 1] = was_there
end
-- A stream without entries is the same as none.
if redis.call('XLEN', unmatched) == 0 then redis.call('DEL', unmatched) end
return removed
