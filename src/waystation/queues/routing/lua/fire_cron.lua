--- Fire schedules whose time has come, each slot once, and move them to their next time.
--- Each schedule is its id, the time it was read with, its next time or nothing, its overlap
--- policy, how many slots it fires, then for each the slot and the instance's data, and how many
--- it leaves out, then for each the slot.
--- keys  cron routes fired terms events
--- args  namespace now term schedules...
--- uses  line_at instant_ms fenced adopt fire_slot tell queue_of
local line = line_at(namespace)
now = instant_ms(now)
local over = fenced(terms, term)
if over then return over end
adopt(line, now)
local made, at = {}, schedules
while at <= #ARGV do
  local id, expected, next_at, overlap, count =
    ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4])
  local route, score = redis.call('HGET', routes, id), redis.call('ZSCORE', cron, id)
  -- Another scheduler was quicker when the time is not the one that was read.
  local ours = route and score and tonumber(score) == tonumber(expected)
  local first = at + 5
  for slot_at = first, first + 2 * count - 2, 2 do
    local slot = ARGV[slot_at]
    if ours and fire_slot(line, now, id, slot, route, ARGV[slot_at + 1], overlap) == 'fired' then
      made[#made + 1] = id .. ':' .. slot
    end
  end
  first = first + 2 * count
  local left_out = tonumber(ARGV[first])
  for slot_at = first + 1, first + left_out do
    if ours and tonumber(ARGV[slot_at]) > tonumber(redis.call('HGET', fired, id) or 0) then
      tell(line, now, 'skipped', queue_of(string.sub(route, 2)), id .. ':' .. ARGV[slot_at],
        'schedule', id, 'slot', ARGV[slot_at], 'reason', 'missed')
    end
  end
  if ours and next_at ~= '' then
    redis.call('ZADD', cron, next_at, id)
  elseif ours then
    redis.call('ZREM', cron, id)
  end
  at = first + 1 + left_out
end
return made
