--- Fire schedules whose time has come, each slot once, and move them to their next time.
--- Each schedule is its id, the time it was read with, its next time or nothing, its overlap
--- policy, how many slots it fires, then for each the slot and the instance's data, and how many
--- it leaves out, then for each the slot.
--- keys  cron routes fired terms events
--- args  namespace now term schedules...
--- uses  keys_at instant_ms fenced index_foreign route_of fire_slot emit_event queue_of check_keys
local line = keys_at(namespace)
now = instant_ms(now)
local over = fenced(terms, term)
if over then return over end
check_keys(line)
index_foreign(line, now)
local fresh, at = {}, schedules
while at <= #ARGV do
  local id, expected, next_at, overlap, count =
    ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4])
  local score = redis.call('ZSCORE', cron, id)
  -- Another scheduler was quicker when the time is not the one that was read.
  local ours = score and tonumber(score) == tonumber(expected)
  -- Those that others have written have none yet; what says nothing gets none, and leaves the set.
  local route = ours and route_of(line, id)
  local first, after = at + 5, at + 5 + 2 * count
  local left_out = tonumber(ARGV[after])
  local handled, made = string.match(redis.call('HGET', fired, id) or '0 0', '^(%d+) (%d+)$')
  for slot_at = after + 1, after + left_out do
    local slot = ARGV[slot_at]
    if route and tonumber(slot) > tonumber(handled) then
      emit_event(line, now, 'skipped', queue_of(string.sub(route, 2)), id .. ':' .. slot,
        'schedule', id, 'slot', slot, 'reason', 'missed')
      if count == 0 then redis.call('HSET', fired, id, slot .. ' ' .. made) end
    end
  end
  for slot_at = first, after - 2, 2 do
    local slot = ARGV[slot_at]
    if route and fire_slot(line, now, id, slot, route, ARGV[slot_at + 1], overlap) == 'fired' then
      fresh[#fresh + 1] = id .. ':' .. slot
    end
  end
  if route and next_at ~= '' then
    redis.call('ZADD', cron, next_at, id)
  elseif ours then
    redis.call('ZREM', cron, id)
  end
  at = after + 1 + left_out
end
return fresh
