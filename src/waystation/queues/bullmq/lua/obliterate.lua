--- Delete a whole queue, so many jobs in one call: 1 when there is more, 0 when nothing is left,
--- -2 when jobs are active and may not be taken from their workers.
--- keys  wait paused active prioritized delayed completed failed waiting_children meta events marker
--- keys  id pc stalled stalled_check limiter
--- keys  metrics_completed metrics_completed_data metrics_failed metrics_failed_data
--- args  base now most force
--- uses  now_ms makes_room erase_job
if force == '' and redis.call('EXISTS', active) == 1 then return -2 end
local queue = { base = base, meta = meta, events = events, marker = marker }
now, most = now_ms(now), tonumber(most)
makes_room('SREM', stalled)
-- Nobody is to take out a job while the others are being deleted.
redis.call('HSET', meta, 'paused', 1)

local function ids_of(kind, key)
  if kind == 'list' then return redis.call('RPOP', key, most) or {} end
  local found, ids = redis.call('ZPOPMIN', key, most), {}
  for place = 1, #found, 2 do ids[#ids + 1] = found[place] end
  return ids
end

local states = {
  { 'list', active }, { 'list', wait }, { 'list', paused }, { 'zset', prioritized },
  { 'zset', delayed }, { 'zset', completed }, { 'zset', failed }, { 'zset', waiting_children },
}
for _, state in ipairs(states) do
  local ids = ids_of(state[1], state[2])
  for _, each in ipairs(ids) do erase_job(queue, each, now) end
  most = most - #ids
  if most < 1 then return 1 end
end

local schedulers = base .. 'repeat'
for _, scheduler in ipairs(ids_of('zset', schedulers)) do
  redis.call('DEL', schedulers .. ':' .. scheduler)
  most = most - 1
end
if most < 1 then return 1 end
redis.call('DEL', meta, events, marker, id, pc, stalled, stalled_check, limiter,
  metrics_completed, metrics_completed_data, metrics_failed, metrics_failed_data)
return 0
