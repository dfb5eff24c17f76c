--- Stop the script, before it has written, when what a job's end changes elsewhere is of another
--- type: about its parent, the parent's queue, and the job that is kept for later in its place.
--- `most` is how many children may be completed by this call; more of them keep a parent waiting.
--- uses  must_hold check_queue check_parent read_parent
local function check_ties(queue, parent_key, parent, deduplication, seen, most)
  if parent_key then
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
