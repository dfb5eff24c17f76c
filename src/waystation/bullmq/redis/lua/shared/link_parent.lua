--- Make a job that exists the child of a parent; 0, or -7 when it has another that lives.
--- A parent that is still being added with its other children is released by whoever adds it.
--- uses  has_other_parent queue_at read_parent release_parent
local function link_parent(queue, id, parent_key, parent, now, is_flow)
  local job, dependencies = queue.base .. id, parent_key .. ':dependencies'
  if has_other_parent(job, parent_key) then return -7 end
  redis.call('HSET', job, 'parentKey', parent_key, 'parent', parent)
  if not redis.call('ZSCORE', queue.completed, id) then
    redis.call('SADD', dependencies, job)
    return 0
  end
  local result = redis.call('HGET', job, 'returnvalue') or 'null'
  redis.call('SREM', dependencies, job)
  redis.call('HSET', parent_key .. ':processed', job, result)
  if not is_flow and redis.call('EXISTS', dependencies) == 0 then
    local known = read_parent(parent_key, parent)
    release_parent(queue_at(known.queueKey .. ':'), known.id, now)
  end
  return 0
end
