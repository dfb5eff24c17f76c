--- Put a job behind the others of its priority.
local function push_prioritized(queue, id, priority)
  local arrival = redis.call('INCR', queue.pc) % 4294967296
  redis.call('ZADD', queue.prioritized, priority * 4294967296 + arrival, id)
end
