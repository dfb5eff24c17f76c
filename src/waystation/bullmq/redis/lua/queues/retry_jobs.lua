--- Make the jobs of one state wait again that got there no later than `until_ms`, the oldest first and
--- at most `most`; the reply is how many there were.
--- keys  wait active completed failed delayed marker meta events paused absent
--- args  base state until_ms:str|int most:int -> int
--- as    queue base
--- uses  forget_steps mark_ready waiting_list field_of check_parent return_to_parent events_cap
--- lazy  push_all_grouped
local key = ({ completed = completed, failed = failed, delayed = delayed })[state]
local value = ({ completed = 'returnvalue', failed = 'failedReason' })[state]
local found = redis.call('ZRANGEBYSCORE', key, '-inf', until_ms, 'LIMIT', 0, most)
if #found == 0 then return 0 end
local ids, parents, groups, seen = {}, {}, {}, {}
for _, id in ipairs(found) do
  -- An id whose job is gone, or is no job, leaves the set and goes nowhere.
  if (tonumber(redis.pcall('HLEN', base .. id)) or 0) > 0 then
    ids[#ids + 1] = id
    groups[#ids] = field_of(base .. id, 'gid') or false
    parents[#ids] = value and field_of(base .. id, 'parentKey') or false
    if parents[#ids] then check_parent(base, parents[#ids], seen) end
  end
end
redis.call('ZREM', key, unpack(found))
for nth, id in ipairs(ids) do
  if value then
    forget_steps(base .. id, id, state)
    redis.call('HDEL', base .. id, 'finishedOn', 'processedOn', value)
    return_to_parent(base .. id, state, parents[nth])
  else
    redis.call('HSET', base .. id, 'delay', 0)
  end
  redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', state)
end
-- As with Node they wait in the list, whatever their priority, unless they have a group.
local grouped, ungrouped = {}, {}
for nth, id in ipairs(ids) do
  if groups[nth] then
    grouped[#grouped + 1] = { id, groups[nth], tonumber(field_of(base .. id, 'priority')) or 0 }
  else
    ungrouped[#ungrouped + 1] = id
  end
end
if #grouped > 0 then lazy().push_all_grouped(queue, grouped) end
if #ungrouped > 0 then redis.call('LPUSH', waiting_list(queue), unpack(ungrouped)) end
redis.call('XTRIM', events, 'MAXLEN', '~', events_cap(meta))
mark_ready(queue)
return #found
