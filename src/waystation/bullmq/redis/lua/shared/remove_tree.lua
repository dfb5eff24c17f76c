--- Remove a job from whatever state it is in and, when asked, its children before it.
--- uses  leave_parent queue_at locate_job drop_from_states free_deduplication forget_job events_cap
local function remove_tree(queue, id, parent_key, with_children, now)
  local job = queue.base .. id
  leave_parent(queue, job, parent_key, now)
  if with_children then
    local children = redis.call('HKEYS', job .. ':processed')
    for _, more in ipairs({
      redis.call('HKEYS', job .. ':failed'),
      redis.call('ZRANGE', job .. ':unsuccessful', 0, -1),
      redis.call('SMEMBERS', job .. ':dependencies'),
    }) do
      for _, child in ipairs(more) do children[#children + 1] = child end
    end
    for _, child in ipairs(children) do
      local base, child_id = locate_job(child, queue.base)
      remove_tree(queue_at(base), child_id, job, true, now)
    end
  end
  local was_in = drop_from_states(queue, id)
  free_deduplication(queue, id)
  if redis.call('EXISTS', job) == 1 then
    redis.call('XADD', queue.events, 'MAXLEN', '~', events_cap(queue.meta), '*', 'event', 'removed',
      'jobId', id, 'prev', was_in)
  end
  forget_job(job)
end
