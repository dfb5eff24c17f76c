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
