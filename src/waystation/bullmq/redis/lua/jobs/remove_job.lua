--- Remove a job with all that is kept about it: 1, or 0 when a worker holds it or one of its
--- children, -3 when it is not in `state` ('' for any), or -8 when it keeps its scheduler going.
--- keys  wait paused active prioritized delayed completed failed waiting_children meta events marker
--- keys  absent
--- args  base now id with_children by state
--- uses  now_ms is_in_state is_current_iteration is_locked check_tree remove_tree
local queue = {
  base = base, wait = wait, paused = paused, active = active, prioritized = prioritized,
  delayed = delayed, completed = completed, failed = failed, ['waiting-children'] = waiting_children,
  meta = meta, events = events, marker = marker,
}
if state ~= '' and not is_in_state(queue, id, state) then return -3 end
if is_current_iteration(queue, id) then return -8 end
if is_locked(base, id, with_children == '1') then return 0 end
check_tree(base, id, nil, with_children == '1', {})
remove_tree(queue, id, nil, with_children == '1', now_ms(now), by)
return 1
