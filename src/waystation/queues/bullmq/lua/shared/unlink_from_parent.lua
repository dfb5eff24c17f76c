--- Let a parent wait no longer for this child; the reply is where the parent is, when that was the
--- last one it waited for: what its key starts with, and its id.
--- uses  locate_job
local function unlink_from_parent(queue, job, parent_key)
  parent_key = parent_key or redis.call('HGET', job, 'parentKey')
  if not parent_key or redis.call('SREM', parent_key .. ':dependencies', job) == 0 then return nil end
  if redis.call('SCARD', parent_key .. ':dependencies') > 0 then return nil end
  local base, id = locate_job(parent_key, queue.base)
  if not redis.call('ZSCORE', base .. 'waiting-children', id) then return nil end
  return base, id
end
