--- Stop the script, before it has written, when what is kept about a parent, or a key of its queue,
--- is of another type. `near` is the base of a queue it is related to.
--- uses  must_hold check_queue locate_job
local function check_parent(near, parent_key, seen)
  if seen[parent_key] then return end
  must_hold('HLEN', parent_key)
  must_hold('SCARD', parent_key .. ':dependencies')
  must_hold('HLEN', parent_key .. ':processed')
  must_hold('HLEN', parent_key .. ':failed')
  must_hold('ZCARD', parent_key .. ':unsuccessful')
  local base = locate_job(parent_key, near)
  if base then check_queue(base, seen) end
  seen[parent_key] = true
end
