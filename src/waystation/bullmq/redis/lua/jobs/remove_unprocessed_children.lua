--- Remove children that no worker holds and that have not failed, with their own; one page of them.
--- The reply has the cursor of the next page, 0 at the end, and how many jobs were removed.
--- keys  job dependencies absent
--- args  base cursor:int now:str|int= -> pair
--- uses  instant_ms queue_at locate_job leave_parent drop_from_states free_deduplication forget_job
--- uses  check_tree
now = instant_ms(now)
local remove_children

local function remove_child(child_key, parent_key, parent_base)
  if redis.call('EXISTS', child_key .. ':lock') == 1 then return 0 end
  local child_base, id = locate_job(child_key, parent_base)
  local queue = queue_at(child_base)
  if redis.call('ZSCORE', queue.failed, id) then return 0 end
  leave_parent(queue, child_key, parent_key, now)
  local removed = remove_children(child_key, child_base)
  local state = drop_from_states(queue, id)
  free_deduplication(queue, id)
  if redis.call('EXISTS', child_key) == 0 then return removed end
  forget_job(child_key)
  redis.call('XADD', queue.events, '*', 'event', 'removed', 'jobId', id, 'prev', state)
  return removed + 1
end

remove_children = function(parent_key, parent_base)
  local removed = 0
  for _, child_key in ipairs(redis.call('SMEMBERS', parent_key .. ':dependencies')) do
    removed = removed + remove_child(child_key, parent_key, parent_base)
  end
  return removed
end

local page = redis.call('SSCAN', dependencies, cursor, 'COUNT', 100)
local removed, seen = 0, {}
for _, child_key in ipairs(page[2]) do
  local child_base, id = locate_job(child_key, base)
  check_tree(child_base, id, job, true, seen)
end
for _, child_key in ipairs(page[2]) do removed = removed + remove_child(child_key, job, base) end
return { page[1], removed }
