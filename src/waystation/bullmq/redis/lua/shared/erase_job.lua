--- Delete a job that is in no state any more; a parent in the same queue that waited for nothing
--- else goes with it, one in another queue may run. The parent's key is false for a job without one.
--- uses  unlink_from_parent free_deduplication forget_job queue_at release_parent
local function erase_job(queue, id, now, parent_key)
  local job = queue.base .. id
  local base, parent = unlink_from_parent(queue, job, parent_key)
  free_deduplication(queue, id)
  forget_job(job)
  if not base then return end
  if base ~= queue.base then
    release_parent(queue_at(base), parent, now)
    return
  end
  redis.call('ZREM', base .. 'waiting-children', parent)
  erase_job(queue, parent, now)
end
