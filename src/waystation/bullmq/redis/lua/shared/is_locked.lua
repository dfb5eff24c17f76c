--- Whether somebody holds a job or, when asked, one of those that it waits for.
--- uses  locate_job
local function is_locked(base, id, with_children)
  local job = base .. id
  if redis.call('EXISTS', job .. ':lock') == 1 then return true end
  if not with_children then return false end
  for _, child in ipairs(redis.call('SMEMBERS', job .. ':dependencies')) do
    local child_base, child_id = locate_job(child, base)
    if is_locked(child_base, child_id, true) then return true end
  end
  return false
end
