--- Let a parent wait no longer for this child; the reply is where the parent is, when that was the
--- last one it waited for: what its key starts with, and its id.
--- `parent_key` is false for a child that is known to have none.
--- uses  locate_job field_of
local function unlink_from_parent(queue, job, parent_key)
  if parent_key == nil then parent_key = field_of(job, 'parentKey') end
  if not parent_key or redis.call('SREM', parent_key .. ':dependencies', job) == 0 then return nil end
  if redis.call('SCARD', parent_key .. ':dependencies') > 0 then return nil end
  local base, id = locate_job(parent_key, queue.base)
  if not redis.call('ZSCORE', base .. 'waiting-children', id) then return nil end
  return base, id
end
