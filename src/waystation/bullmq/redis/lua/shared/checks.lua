--- Stop the script, before it has written, when a key of a queue is of another type.
--- `seen` has the queues that were looked at before.
--- uses  must_hold
local function check_queue(base, seen)
  if seen and seen[base] then return end
  local sizes = {
    LLEN = { 'wait', 'paused', 'active' }, HLEN = { 'meta' }, XLEN = { 'events' },
    ZCARD = { 'prioritized', 'delayed', 'waiting-children', 'completed', 'failed', 'marker' },
    STRLEN = { 'pc', 'id' },
  }
  for size, names in pairs(sizes) do
    for _, name in ipairs(names) do must_hold(size, base .. name) end
  end
  if seen then seen[base] = true end
end

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

--- Stop the script, before it has written, when a job's parent, or one of those above that may go
--- with it, has a key of another type.
--- uses  check_parent field_of
local function check_ancestors(near, parent_key, seen)
  while parent_key and not seen[parent_key] do
    check_parent(near, parent_key, seen)
    parent_key = field_of(parent_key, 'parentKey')
  end
end

--- Stop the script, before it has written, when something that is removed or changed with a job
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

--- Stop the script, before it has written, when what a job's end changes elsewhere is of another
--- type: about its parent, the parent's queue, and the job that is kept for later in its place.
--- `most` is how many children may be completed by this call; more of them keep a parent waiting.
--- uses  must_hold check_queue check_parent read_parent
local function check_ties(queue, parent_key, parent, deduplication, seen, most)
  if parent_key and not seen[parent_key] then
    local open = must_hold('SCARD', parent_key .. ':dependencies')
    must_hold('HLEN', parent_key .. ':processed')
    if not most or open <= most then
      local known = read_parent(parent_key, parent)
      must_hold('HLEN', known.queueKey .. ':' .. known.id)
      check_queue(known.queueKey .. ':', seen)
      check_parent(queue.base, parent_key, seen)
    end
  end
  if deduplication then
    must_hold('STRLEN', queue.base .. 'de:' .. deduplication)
    local next_key = queue.base .. 'dn:' .. deduplication
    if must_hold('HLEN', next_key) > 0 then
      check_queue(queue.base, seen)
      local number, dependencies = redis.call('GET', queue.base .. 'id'), redis.call('HGET', next_key, 'pdk')
      if number and not tonumber(number) then error(queue.base .. 'id is no number') end
      if dependencies then must_hold('SCARD', dependencies) end
    end
  end
end

--- Stop the script, before it has written, when what a new job's parent or deduplication has is of
--- another type.
--- uses  must_hold check_queue check_ties
local function check_wants(queue, wants, seen)
  local rule, owner = wants.deduplication, nil
  if rule then owner = must_hold('GET', queue.base .. 'de:' .. rule.id) end
  local changes = rule and (rule.replace or rule.reschedule or rule.keepLastIfActive)
  if not wants.parent_key and not changes then return end
  check_queue(queue.base, seen)
  check_ties(queue, wants.parent_key, wants.parent, nil, seen)
  if wants.id then must_hold('HLEN', queue.base .. wants.id) end
  if changes and owner then
    -- It may be replaced, and then leaves its own parent.
    must_hold('HLEN', queue.base .. owner)
    local ties = redis.call('HMGET', queue.base .. owner, 'parentKey', 'parent')
    check_ties(queue, ties[1], ties[2], nil, seen)
  end
end
