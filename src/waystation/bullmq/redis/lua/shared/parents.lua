--- What a child's hash says about its parent; when that is unreadable, what the key says.
local function read_parent(parent_key, text)
  local is_read, parent = pcall(cjson.decode, text or '')
  if is_read and type(parent) == 'table' and parent.id and parent.queueKey then return parent end
  local queue_key, id = string.match(parent_key, '^(.*):([^:]*)$')
  return { id = id, queueKey = queue_key }
end

--- True when a job already has another parent that exists.
local function has_other_parent(job, parent_key)
  local present = redis.call('HGET', job, 'parentKey')
  return present and present ~= parent_key and redis.call('EXISTS', present) == 1
end

--- Make a job that exists the child of a parent; 0, or -7 when it has another that lives.
--- A parent that is still being added with its other children is released by the script that adds it.
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

--- Release a parent from waiting for this child; returns where the parent is, when that was the
--- last one it waited for: what its key starts with, and its id.
--- `parent_key` is false for a child that is known to have none.
--- uses  locate_job field_of
local function unlink_from_parent(queue, job, parent_key)
  if parent_key == nil then parent_key = field_of(job, 'parentKey') end
  if not parent_key or redis.call('SREM', parent_key .. ':dependencies', job) == 0 then return nil end
  if redis.call('SCARD', parent_key .. ':dependencies') > 0 then return nil end
  local base, id = locate_job(parent_key, queue.base)
  if not redis.call('ZSCORE', base .. 'waiting-children', id) then return nil end
  return base, id
end

--- Release a parent from waiting for this child, and run it if there is no other.
--- uses  unlink_from_parent queue_at release_parent
local function leave_parent(queue, job, parent_key, now)
  local base, id = unlink_from_parent(queue, job, parent_key)
  if base then release_parent(queue_at(base), id, now) end
end

--- Make a parent ready to run that has waited for its children.
--- uses  enqueue_job
local function release_parent(parents, id, now)
  if redis.call('ZREM', parents['waiting-children'], id) == 0 then return end
  local wishes = redis.call('HMGET', parents.base .. id, 'name', 'priority', 'delay')
  -- An id whose job is gone leaves the set here and goes nowhere.
  if not wishes[1] then return end
  local priority, delay = tonumber(wishes[2] or 0) or 0, tonumber(wishes[3] or 0) or 0
  enqueue_job(parents, id, now, delay, priority, true, 'waiting-children')
end

--- Doom a parent to fail when a worker next picks it up, which is at once if it only waits.
--- uses  release_parent
local function fail_parent(parents, id, child_key, now)
  local job = parents.base .. id
  if redis.call('EXISTS', job) == 0 or redis.call('ZSCORE', parents.failed, id) then return end
  redis.call('HSET', job, 'defa', 'child ' .. child_key .. ' failed')
  if redis.call('ZREM', parents.delayed, id) == 1 then
    redis.call('HSET', job, 'delay', 0)
    redis.call('ZADD', parents['waiting-children'], now, id)
  end
  release_parent(parents, id, now)
end

--- Make a parent wait again for a child that will run once more.
local function return_to_parent(job, state, parent)
  if not parent or redis.call('EXISTS', parent) == 0 then return end
  local was_counted
  if state == 'completed' then
    was_counted = redis.call('HDEL', parent .. ':processed', job) == 1
  else
    was_counted = redis.call('ZREM', parent .. ':unsuccessful', job) == 1
      or redis.call('HDEL', parent .. ':failed', job) == 1
  end
  if was_counted then redis.call('SADD', parent .. ':dependencies', job) end
end

--- Record in a parent that one of its children is completed.
--- uses  queue_at release_parent
local function child_completed(parent_key, parent, child_key, result, now)
  local dependencies = parent_key .. ':dependencies'
  if redis.call('SREM', dependencies, child_key) == 0 then return end
  redis.call('HSET', parent_key .. ':processed', child_key, result)
  if redis.call('EXISTS', dependencies) == 0 then
    release_parent(queue_at(parent.queueKey .. ':'), parent.id, now)
  end
end

--- Record in a parent that one of its children has failed for good, as the child's flags say.
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
