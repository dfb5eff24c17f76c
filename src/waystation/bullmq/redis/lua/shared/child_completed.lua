--- Tell a parent that one of its children is done.
--- uses  queue_at release_parent
local function child_completed(parent_key, parent, child_key, result, now)
  local dependencies = parent_key .. ':dependencies'
  if redis.call('SREM', dependencies, child_key) == 0 then return end
  redis.call('HSET', parent_key .. ':processed', child_key, result)
  if redis.call('EXISTS', dependencies) == 0 then
    release_parent(queue_at(parent.queueKey .. ':'), parent.id, now)
  end
end
