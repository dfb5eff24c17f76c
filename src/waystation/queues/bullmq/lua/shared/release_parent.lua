--- Let a parent run that has waited for its children.
--- uses  push_delayed mark_delayed push_prioritized mark_ready waiting_list
local function release_parent(parents, id, now)
  if redis.call('ZREM', parents['waiting-children'], id) == 0 then return end
  local wishes = redis.call('HMGET', parents.base .. id, 'name', 'priority', 'delay')
  -- An id whose job is gone leaves the set here and goes nowhere.
  if not wishes[1] then return end
  local priority, delay = tonumber(wishes[2] or 0) or 0, tonumber(wishes[3] or 0) or 0
  if delay > 0 then
    local due = now + delay
    push_delayed(parents, id, due)
    redis.call('XADD', parents.events, '*', 'event', 'delayed', 'jobId', id,
      'delay', string.format('%.0f', due))
    mark_delayed(parents)
    return
  end
  if priority > 0 then
    push_prioritized(parents, id, priority)
  else
    redis.call('RPUSH', waiting_list(parents), id)
  end
  mark_ready(parents)
  redis.call('XADD', parents.events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'waiting-children')
end
