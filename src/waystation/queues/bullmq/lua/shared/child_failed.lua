--- Tell a parent that one of its children has failed for good; the child's flags say what follows.
--- uses  queue_at release_parent
local function child_failed(parent_key, parent, child_key, reason, now)
  local parents = queue_at(parent.queueKey .. ':')
  if parent.fpof then
    if redis.call('SREM', parent_key .. ':dependencies', child_key) == 0 then return end
    redis.call('ZADD', parent_key .. ':unsuccessful', now, child_key)
    redis.call('HSET', parent_key, 'defa', 'child ' .. child_key .. ' failed')
    release_parent(parents, parent.id, now)
  elseif parent.cpof then
    if redis.call('SREM', parent_key .. ':dependencies', child_key) == 0 then return end
    redis.call('HSET', parent_key .. ':failed', child_key, reason)
    release_parent(parents, parent.id, now)
  elseif parent.idof or parent.rdof then
    if redis.call('SREM', parent_key .. ':dependencies', child_key) == 0 then return end
    if parent.idof then redis.call('HSET', parent_key .. ':failed', child_key, reason) end
    if redis.call('SCARD', parent_key .. ':dependencies') == 0 then
      release_parent(parents, parent.id, now)
    end
  end
end
