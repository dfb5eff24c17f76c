--- Move delayed jobs whose time has come into the line.
--- uses  push_prioritized mark_ready waiting_list
local function promote_due(queue, now)
  local due = redis.call('ZRANGEBYSCORE', queue.delayed, 0, (now + 1) * 4096 - 1, 'LIMIT', 0, 1000)
  if #due == 0 then return end
  redis.call('ZREM', queue.delayed, unpack(due))
  local list = waiting_list(queue)
  for _, id in ipairs(due) do
    local job = queue.base .. id
    local priority = redis.pcall('HGET', job, 'priority')
    local is_job = type(priority) ~= 'table' and redis.call('EXISTS', job) == 1
    -- An id whose job is gone, or is no job, leaves the set and goes nowhere.
    if is_job then
      priority = tonumber(priority) or 0
      if priority > 0 then
        push_prioritized(queue, id, priority)
      else
        redis.call('LPUSH', list, id)
      end
      redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'delayed')
      redis.call('HSET', job, 'delay', 0)
    end
  end
  mark_ready(queue)
end
