--- Whether a job is the one that keeps its scheduler going.
local function is_current_iteration(queue, id)
  local scheduler = redis.call('HGET', queue.base .. id, 'rjk')
  if not scheduler then return false end
  local slot = redis.call('ZSCORE', queue.base .. 'repeat', scheduler)
  return slot and id == 'repeat:' .. scheduler .. ':' .. slot
end
