--- Whether the queue hands out nothing now: paused, or at its global concurrency.
local function is_held_back(queue)
  local state = redis.call('HMGET', queue.meta, 'paused', 'concurrency')
  if state[1] then return true end
  return state[2] and redis.call('LLEN', queue.active) >= tonumber(state[2])
end
