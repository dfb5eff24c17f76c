--- Put back jobs whose locks have lapsed since the last look, and suspect those active now.
--- At most `most` are put back; when there are more, the next call may follow at once.
--- keys  stalled wait paused active stalled_check meta events marker grouped groups_settings absent
--- args  base now:str|int interval_ms:int max_stalled:int most:int -> texts
--- as    queue base
--- uses  instant_ms makes_room events_cap mark_ready count_up waiting_list
--- lazy  push_all_grouped release_grouped
if redis.call('EXISTS', stalled_check) == 1 then return {} end
now = instant_ms(now)
makes_room('SREM', stalled)
redis.call('XTRIM', events, 'MAXLEN', '~', events_cap(meta))
-- Node's `obliterate` knows of no groups: it deletes what says that there are some, and leaves them.
if redis.call('EXISTS', grouped, groups_settings) > 0 then
  redis.call('HSETNX', meta, 'groups', 2)
end

-- Nearly always all of them hold their locks, or none of a worker that has gone does.
local suspects, lapsed = redis.call('SMEMBERS', stalled), {}
for first = 1, #suspects, 100 do
  local locks, last = {}, math.min(first + 99, #suspects)
  for nth = first, last do locks[#locks + 1] = base .. suspects[nth] .. ':lock' end
  local locked = redis.call('EXISTS', unpack(locks))
  if locked < #locks then
    for nth, lock in ipairs(locks) do
      lapsed[suspects[first + nth - 1]] = locked == 0 or redis.call('EXISTS', lock) == 0
    end
  end
end

local held = redis.call('LRANGE', active, 0, -1)
local recovered, kept, cleared, has_more = {}, {}, {}, false
most = tonumber(most)
for _, id in ipairs(held) do
  if not lapsed[id] then
    kept[#kept + 1] = id
  elseif #recovered == most then
    kept[#kept + 1], has_more = id, true
  else
    cleared[#cleared + 1] = id
    if (tonumber(redis.pcall('HLEN', base .. id)) or 0) > 0 then recovered[#recovered + 1] = id end
  end
  -- An id whose job is gone, or is no job, is neither kept nor recovered: it leaves the active list here.
end

if #kept < #held then
  -- Written anew, because taking ids out one by one would look through the list for each.
  redis.call('DEL', active)
  for first = 1, #kept, 1000 do
    redis.call('RPUSH', active, unpack(kept, first, math.min(first + 999, #kept)))
  end
end
local grouped, ungrouped = {}, {}
local list = waiting_list(queue)
for _, id in ipairs(recovered) do
  local job = base .. id
  local path = redis.call('HGET', job, 'gid')
  if path then
    lazy().release_grouped(queue, id, path)
    grouped[#grouped + 1] = { id, path, tonumber(redis.call('HGET', job, 'priority')) or 0, true }
  else
    ungrouped[#ungrouped + 1] = id
  end
  -- It may have done steps, and not have said what undoes them.
  if redis.call('HEXISTS', job, 'steps') == 1 then redis.call('HSET', job, 'cut', 1) end
  if count_up(job, 'stc') > tonumber(max_stalled) then
    local scheduler = redis.call('HGET', job, 'rjk')
    if not scheduler or redis.call('EXISTS', base .. 'repeat:' .. scheduler) == 0 then
      redis.call('HSET', job, 'defa', 'job stalled more than allowable limit')
    end
  end
  redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
  redis.call('XADD', events, '*', 'event', 'stalled', 'jobId', id)
end
if #grouped > 0 then lazy().push_all_grouped(queue, grouped) end
for first = 1, #ungrouped, 1000 do
  redis.call('RPUSH', list, unpack(ungrouped, first, math.min(first + 999, #ungrouped)))
end
if #recovered > 0 then mark_ready(queue) end

if has_more then
  -- The next call goes on with them. Nobody is suspected anew before all of them are back, or the
  -- two looks at a job would be one.
  for first = 1, #cleared, 1000 do
    redis.call('SREM', stalled, unpack(cleared, first, math.min(first + 999, #cleared)))
  end
  return recovered
end
redis.call('SET', stalled_check, string.format('%.0f', now), 'PX', interval_ms)
redis.call('DEL', stalled)
for first = 1, #kept, 1000 do
  redis.call('SADD', stalled, unpack(kept, first, math.min(first + 999, #kept)))
end
return recovered
