--- Whether a job is the one that keeps its scheduler going.
--- uses  field_of
local function is_current_iteration(queue, id)
  local scheduler = field_of(queue.base .. id, 'rjk')
  if not scheduler then return false end
  local slot = redis.call('ZSCORE', queue.base .. 'repeat', scheduler)
  return slot and id == 'repeat:' .. scheduler .. ':' .. slot
end
