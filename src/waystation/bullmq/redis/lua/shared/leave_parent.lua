--- Let a parent wait no longer for this child, and run if there is no other.
--- uses  unlink_from_parent queue_at release_parent
local function leave_parent(queue, job, parent_key, now)
  local base, id = unlink_from_parent(queue, job, parent_key)
  if base then release_parent(queue_at(base), id, now) end
end
