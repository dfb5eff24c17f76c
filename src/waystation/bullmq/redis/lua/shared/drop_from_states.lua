--- Take a job out of whatever holds it; the reply is what held it.
local function drop_from_states(queue, id)
  for _, state in ipairs({ 'completed', 'waiting-children', 'delayed', 'failed', 'prioritized' }) do
    if redis.call('ZREM', queue[state], id) == 1 then return state end
  end
  for _, state in ipairs({ 'wait', 'paused', 'active' }) do
    if redis.call('LREM', queue[state], 1, id) == 1 then return state end
  end
  return 'unknown'
end
