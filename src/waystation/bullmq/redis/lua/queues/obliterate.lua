--- Delete a whole queue, so many jobs in one call: 1 when there is more, 0 when nothing is left,
--- -2 when jobs are active and may not be taken from their workers.
--- keys  wait paused active prioritized delayed completed failed waiting_children meta events marker
--- keys  id pc stalled stalled_check limiter paused_schedulers deadlines
--- keys  metrics_completed metrics_completed_data metrics_failed metrics_failed_data grouped absent
--- args  base now:str|int= most:int force -> int
--- as    queue base
--- unchecked  events marker id pc stalled_check limiter deadlines
--- unchecked  metrics_completed metrics_completed_data metrics_failed metrics_failed_data
--- uses  instant_ms makes_room must_hold field_of check_ancestors erase_job
--- uses  leave_group release_grouped group_key
if force == '' and redis.call('EXISTS', active) == 1 then return -2 end
local schedulers, seen, left = base .. 'repeat', {}, tonumber(most)
now = instant_ms(now)
must_hold('ZCARD', schedulers)

local states = {
  { 'list', active }, { 'list', wait }, { 'list', paused }, { 'zset', prioritized }, { 'zset', grouped },
  { 'zset', delayed }, { 'zset', completed }, { 'zset', failed }, { 'zset', waiting_children },
}
for _, state in ipairs(states) do
  local is_list, key = state[1] == 'list', state[2]
  local ids = left < 1 and {} or is_list and redis.call('LRANGE', key, -left, -1)
    or redis.call('ZRANGE', key, 0, left - 1)
  local parents = {}
  for nth, id in ipairs(ids) do
    parents[nth] = field_of(base .. id, 'parentKey') or false
    check_ancestors(base, parents[nth], seen)
  end
  state.ids, state.parents, left = ids, parents, left - #ids
end

makes_room('SREM', stalled)
-- Nobody is to take out a job while the others are being deleted.
redis.call('HSET', meta, 'paused', 1)
for _, state in ipairs(states) do
  local key, ids = state[2], state.ids
  for nth = 1, key == grouped and #ids or 0 do leave_group(queue, ids[nth]) end
  for nth = 1, key == active and #ids or 0 do
    local path = field_of(base .. ids[nth], 'gid')
    if path then release_grouped(queue, ids[nth], path) end
  end
  if #ids > 0 and state[1] == 'list' then
    redis.call('LTRIM', key, 0, -#ids - 1)
  elseif #ids > 0 then
    redis.call('ZREMRANGEBYRANK', key, 0, #ids - 1)
  end
  for nth = 1, #ids do erase_job(queue, ids[nth], now, state.parents[nth]) end
end
if left < 1 then return 1 end

local found = redis.call('ZPOPMIN', schedulers, left)
for place = 1, #found, 2 do redis.call('DEL', schedulers .. ':' .. found[place]) end
if #found / 2 == left then return 1 end
for _, each in ipairs(redis.call('HKEYS', paused_schedulers)) do
  redis.call('DEL', schedulers .. ':' .. each)
end
redis.call('DEL', group_key(queue, 'ready', ''), group_key(queue, 'past', ''),
  group_key(queue, 'held'), group_key(queue, 'clock'), group_key(queue, 'sizes'),
  group_key(queue, 'settings'), group_key(queue, 'marker'))
redis.call('DEL', paused_schedulers, deadlines, meta, events, marker, id, pc, stalled, stalled_check, limiter,
  metrics_completed, metrics_completed_data, metrics_failed, metrics_failed_data)
return 0
