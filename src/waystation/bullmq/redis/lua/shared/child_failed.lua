--- Tell a parent that one of its children has failed for good; the child's flags say what follows.
--- Without a flag the parent goes on waiting.
--- uses  queue_at release_parent fail_parent
local function child_failed(parent_key, parent, child_key, reason, now)
  if not (parent.fpof or parent.cpof or parent.idof or parent.rdof) then return end
  local dependencies = parent_key .. ':dependencies'
  if redis.call('SREM', dependencies, child_key) == 0 then return end
  local parents = queue_at(parent.queueKey .. ':')
  if parent.fpof then
    redis.call('ZADD', parent_key .. ':unsuccessful', now, child_key)
    fail_parent(parents, parent.id, child_key, now)
    return
  end
  if parent.cpof or parent.idof then redis.call('HSET', parent_key .. ':failed', child_key, reason) end
  if parent.cpof or redis.call('EXISTS', dependencies) == 0 then
    release_parent(parents, parent.id, now)
  end
end
