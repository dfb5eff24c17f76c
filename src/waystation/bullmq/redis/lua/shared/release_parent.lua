--- Let a parent run that has waited for its children.
--- uses  enqueue_job
local function release_parent(parents, id, now)
  if redis.call('ZREM', parents['waiting-children'], id) == 0 then return end
  local wishes = redis.call('HMGET', parents.base .. id, 'name', 'priority', 'delay')
  -- An id whose job is gone leaves the set here and goes nowhere.
  if not wishes[1] then return end
  local priority, delay = tonumber(wishes[2] or 0) or 0, tonumber(wishes[3] or 0) or 0
  enqueue_job(parents, id, now, delay, priority, true, 'waiting-children')
end
