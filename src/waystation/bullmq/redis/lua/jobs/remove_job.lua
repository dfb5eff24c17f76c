--- Remove a job with all that is kept about it: 1, or 0 when a worker holds it or one of its
--- children, -3 when it is not in `state` ('' for any), or -8 when it keeps its scheduler going.
--- Of a tree with more than `most` jobs nothing is removed and the reply is 3, unless it is known by
--- `is_next` that no worker holds any: then so many children are removed, and the reply is 2, for the
--- next call to go on. Their parents are not released meanwhile.
--- keys  wait paused active prioritized delayed completed failed waiting_children meta events marker
--- keys  absent
--- args  base now:str|int= id with_children:int by state most:int is_next:int -> int
--- as    queue base
--- uses  instant_ms is_in_state is_current_iteration gather_tree check_tree leave_parent
--- uses  remove_gathered
queue['waiting-children'] = waiting_children
if state ~= '' and not is_in_state(queue, id, state) then return -3 end
if is_current_iteration(queue, id) then return -8 end
local found, seen = {}, {}
gather_tree(queue, id, nil, with_children == '1', tonumber(most), found)
local is_whole = not found[#found].parent_key
for _, each in ipairs(found) do
  if redis.call('EXISTS', each.queue.base .. each.id .. ':lock') == 1 then return 0 end
  check_tree(each.queue.base, each.id, each.parent_key, false, seen)
end
if not is_whole and is_next ~= '1' then return 3 end
for _, each in ipairs(found) do
  local job, parent_key = each.queue.base .. each.id, each.parent_key
  if is_whole then
    leave_parent(each.queue, job, parent_key, instant_ms(now))
  else
    redis.call('SREM', parent_key .. ':dependencies', job)
    redis.call('HDEL', parent_key .. ':processed', job)
    redis.call('HDEL', parent_key .. ':failed', job)
    redis.call('ZREM', parent_key .. ':unsuccessful', job)
  end
end
remove_gathered(found, by)
return is_whole and 1 or 2
