--- Fire schedules whose time has come, each slot once, and move them to their next time.
--- Each schedule is its id, the time it was read with, its next time or nothing, its overlap
--- policy (nothing when it cannot be read), how many slots it fires, then for each the slot and the instance's data, and how many
--- it leaves out, then for each the slot, or the first and last instant of a range.
--- keys  cron routes fired terms events
--- keys  awaited deadletter delayed ended heads meta places serial signatures stalls waiting wake
--- keys  unmoved
--- args  namespace now:str|int term:int schedules:str|bytes|int... -> texts
--- uses  keys_at instant_ms fenced index_foreign route_of fire_slot emit_event queue_of check_keys
--- uses  dead_letter_unreadable
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
    local from, slot = string.match(ARGV[slot_at], '^(%d+)%-?(%d*)$')
    local range = slot ~= '' and { 'until', slot } or {}
    if slot == '' then slot = from end
    if route and tonumber(slot) > tonumber(handled) then
      emit_event(line, now, 'skipped', queue_of(string.sub(route, 2)), id .. ':' .. from,
        'schedule', id, 'slot', from, 'reason', 'missed', unpack(range))
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
    redis.call('HDEL', fired, id)
    if overlap == '' then
      dead_letter_unreadable(line, now, id, redis.call('EXISTS', line.data .. id) == 1 and 'malformed' or 'gone')
    else
      -- It has had its last slot: nothing is left that would keep a new one from being added.
      redis.call('DEL', line.data .. id, line.status .. id)
      redis.call('HDEL', routes, id)
      emit_event(line, now, 'removed', route and queue_of(string.sub(route, 2)) or '', id, 'reason', 'the schedule has ended')
    end
  end
  at = after + 1 + left_out
end
return fresh
