--- Whether a job already has a parent that lives and is not this one.
local function has_other_parent(job, parent_key)
  local present = redis.call('HGET', job, 'parentKey')
  return present and present ~= parent_key and redis.call('EXISTS', present) == 1
end
