--- Remove jobs of one state, the oldest first: those made or ended at least `grace` milliseconds
--- ago, or all when that is ''; but no job that a worker holds, nor the next one of a scheduler.
--- Looks at up to `most` ids after the first `skip`; replies which it removed and how many it spared.
--- keys  wait paused active prioritized delayed completed failed waiting_children meta events marker
--- keys  grouped absent
--- args  base now:str|int= state grace:str|int most:int skip:int emit -> sweep
--- as    queue base
--- uses  instant_ms makes_room is_current_iteration field_of check_ancestors erase_job
--- uses  leave_group
--- lazy  release_grouped
queue['waiting-children'] = waiting_children
now, most, skip = instant_ms(now), tonumber(most), tonumber(skip)
local before = tonumber(grace) and now - grace
local key = queue[state]
local is_list = state == 'wait' or state == 'paused' or state == 'active'
local is_finished = state == 'completed' or state == 'failed'

local born = { delayed = { 'processedOn', 'timestamp' }, prioritized = { 'timestamp' },
  grouped = { 'timestamp' } }
local times = born[state] or { 'finishedOn', 'processedOn', 'timestamp' }

local function is_old_enough(job)
  if not before or is_finished then return true end
  for _, time in ipairs(redis.pcall('HMGET', job, unpack(times))) do
    if time and tonumber(time) then return tonumber(time) <= before end
  end
  return true
end

local function may_go(id)
  local job = base .. id
  if state == 'active' and redis.call('EXISTS', job .. ':lock') == 1 then return false end
  return is_old_enough(job) and not is_current_iteration(queue, id)
end

local ids
if is_list then
  ids = redis.call('LRANGE', key, -(skip + most), -(skip + 1))
else
  ids = redis.call('ZRANGEBYSCORE', key, '-inf', is_finished and before or '+inf',
    'LIMIT', skip, most)
end

local gone, places, parents, seen = {}, {}, {}, {}
for place, id in ipairs(ids) do
  if may_go(id) then
    gone[#gone + 1] = id
    places[#gone] = place - #ids - skip - 1
    parents[#gone] = field_of(base .. id, 'parentKey') or false
    check_ancestors(base, parents[#gone], seen)
  end
end
makes_room('ZREM', completed)
for _, place in ipairs(is_list and places or {}) do
  -- No id is empty, so emptied places are known and taken out below.
  redis.call('LSET', key, place, '')
end
if #gone > 0 and is_list then redis.call('LREM', key, -#gone, '') end
-- Their group is written in the job, so they leave it while that is there.
for _, id in ipairs(state == 'grouped' and gone or {}) do leave_group(queue, id) end
for _, id in ipairs(state == 'active' and gone or {}) do
  local path = field_of(base .. id, 'gid')
  if path then lazy().release_grouped(queue, id, path) end
end
for first = 1, is_list and 0 or #gone, 1000 do
  redis.call('ZREM', key, unpack(gone, first, math.min(first + 999, #gone)))
end
for nth, id in ipairs(gone) do erase_job(queue, id, now, parents[nth]) end
if emit == 'always' or emit ~= '' and #gone > 0 then
  redis.call('XADD', events, '*', 'event', 'cleaned', 'count', #gone)
end
return { gone, #ids - #gone }
