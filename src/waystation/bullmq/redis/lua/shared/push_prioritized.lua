--- Put a job behind the others of its priority.
local function push_prioritized(queue, id, priority)
  local arrival = redis.pcall('INCR', queue.pc)
  if type(arrival) == 'table' then
    -- Whoever writes there may write anything, and jobs must go on.
    redis.call('SET', queue.pc, 1)
    arrival = 1
  end
  arrival = arrival % 4294967296
  redis.call('ZADD', queue.prioritized, priority * 4294967296 + arrival, id)
end
