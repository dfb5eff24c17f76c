--- Stop the script, before it has written, when what a job's end changes elsewhere is of another
--- type: about its parent, the parent's queue, and the job that is kept for later in its place.
--- `most` is how many children may be completed by this call; more of them keep a parent waiting.
--- uses  must_hold check_queue read_parent locate_job
local function check_ties(queue, parent_key, parent, deduplication, most)
  if parent_key then
    local open = must_hold('SCARD', parent_key .. ':dependencies')
    must_hold('HLEN', parent_key .. ':processed')
    if not most or open <= most then
      local known = read_parent(parent_key, parent)
      local base, located = known.queueKey .. ':', locate_job(parent_key, queue.base)
      must_hold('HLEN', base .. known.id)
      must_hold('HLEN', parent_key)
      must_hold('HLEN', parent_key .. ':failed')
      must_hold('ZCARD', parent_key .. ':unsuccessful')
      check_queue(base)
      if located and located ~= base then check_queue(located) end
    end
  end
  if deduplication then
    must_hold('STRLEN', queue.base .. 'de:' .. deduplication)
    local next_key = queue.base .. 'dn:' .. deduplication
    if must_hold('HLEN', next_key) > 0 then
      check_queue(queue.base)
      local dependencies = redis.call('HGET', next_key, 'pdk')
      if dependencies then must_hold('SCARD', dependencies) end
    end
  end
end
