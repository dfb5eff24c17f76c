--- Whether the queue hands out nothing now: paused, or at its global concurrency.
local function is_held_back(queue)
  local state = redis.call('HMGET', queue.meta, 'paused', 'concurrency')
  if state[1] then return true end
  -- Whoever writes there may write anything, and jobs must go on.
  local most = tonumber(state[2])
  return most and redis.call('LLEN', queue.active) >= most
end
