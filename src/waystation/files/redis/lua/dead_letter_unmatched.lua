--- Make dead letters of files without a handler. Each is its entry in the stream, then its id, lane
--- and attempt, payload, reason and error; the reply has 1 for each that was still there.
--- keys  unmatched dead_letter dead_letter_meta events history lanes...
--- args  now:str|int worker events_cap:int entries:str|bytes|int... -> list[int]
--- unchecked  history
--- uses  instant_ms emit_event add_dead_letter take_unmatched
now = instant_ms(now)
local context = {
  lanes = lanes, events = events, events_cap = events_cap, at = string.format('%.0f', now),
  dead_letter = dead_letter, dead_letter_meta = dead_letter_meta, history = history,
}
local moved = {}
for at = entries, #ARGV, 7 do
  local was_there = take_unmatched(unmatched, ARGV[at])
  if was_there then add_dead_letter(context, now, worker, at + 1) end
  moved[#moved + 1] = was_there and 1 or 0
end
return moved
