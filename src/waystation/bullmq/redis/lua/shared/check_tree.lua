--- Stop the script, before it has written, when something that is removed with a job, or told of it,
--- is of another type.
--- uses  check_queue check_parent field_of locate_job
local function check_tree(base, id, parent_key, with_children, seen)
  local job = base .. id
  check_queue(base, seen)
  parent_key = parent_key or field_of(job, 'parentKey')
  if parent_key then check_parent(base, parent_key, seen) end
  if not with_children then return end
  for _, children in ipairs({
    redis.call('HKEYS', job .. ':processed'), redis.call('HKEYS', job .. ':failed'),
    redis.call('ZRANGE', job .. ':unsuccessful', 0, -1),
    redis.call('SMEMBERS', job .. ':dependencies'),
  }) do
    for _, child in ipairs(children) do
      local child_base, child_id = locate_job(child, base)
      check_tree(child_base, child_id, job, true, seen)
    end
  end
end
