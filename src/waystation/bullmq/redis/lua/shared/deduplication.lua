--- Find the job that this one duplicates; nothing when it is to be added and now owns the id.
--- An owner that rests midway, such as asleep, counts as active.
--- uses  own_deduplication replace_delayed is_midway push_delayed mark_delayed
local function deduplicate(queue, id, name, data, opts, wants, now)
  local rule = wants.deduplication
  local key, next_key = queue.base .. 'de:' .. rule.id, queue.base .. 'dn:' .. rule.id
  local owner = redis.call('GET', key)
  if not owner then
    own_deduplication(key, id, rule)
    return
  end
  if rule.replace and replace_delayed(queue, owner, id, key, rule, now) then return end
  if redis.call('PTTL', key) == -1 and redis.call('EXISTS', queue.base .. owner) == 0 then
    -- The key should have gone with its job; nothing would ever delete it.
    redis.call('DEL', next_key)
    own_deduplication(key, id, rule)
    return
  end

  local is_kept = rule.keepLastIfActive
    and (redis.call('LPOS', queue.active, owner) or is_midway(queue.base .. owner))
  if is_kept then
    redis.call('DEL', next_key)
    redis.call('HSET', next_key, 'name', name, 'data', data, 'opts', opts, 'jid', id)
    redis.call('PERSIST', key)
  elseif rule.replace then
    return owner
  elseif rule.extend and rule.ttl then
    own_deduplication(key, owner, rule)
  end
  redis.call('XADD', queue.events, '*', 'event', 'deduplicated', 'jobId', owner,
    'deduplicationId', rule.id, 'deduplicatedJobId', id)

  if rule.reschedule and not rule.replace and redis.call('ZSCORE', queue.delayed, owner)
    and not is_midway(queue.base .. owner) then
    local delay = wants.delay or 0
    local due = (wants.timestamp or now) + delay
    redis.call('HSET', queue.base .. owner, 'delay', delay)
    push_delayed(queue, owner, due)
    redis.call('XADD', queue.events, '*', 'event', 'delayed', 'jobId', owner,
      'delay', string.format('%.0f', due))
    mark_delayed(queue)
  end
  return owner
end

--- Make a job own a deduplication id, for as long as its rule says.
local function own_deduplication(key, id, rule)
  -- A job that keeps the last duplicate owns the key until it has finished.
  local ttl = not rule.keepLastIfActive and tonumber(rule.ttl)
  if ttl and ttl > 0 then
    redis.call('SET', key, id, 'PX', string.format('%.0f', ttl))
  else
    redis.call('SET', key, id)
  end
end

--- Remove the delayed job that a newer one replaces; false when it is not delayed, or rests midway.
--- uses  is_midway forget_job leave_parent own_deduplication
local function replace_delayed(queue, owner, id, key, rule, now)
  if is_midway(queue.base .. owner) then return false end
  if redis.call('ZREM', queue.delayed, owner) == 0 then return false end
  local parent_key = redis.call('HGET', queue.base .. owner, 'parentKey')
  if parent_key then leave_parent(queue, queue.base .. owner, parent_key, now) end
  forget_job(queue.base .. owner)
  redis.call('XADD', queue.events, '*', 'event', 'removed', 'jobId', owner, 'prev', 'delayed')
  redis.call('XADD', queue.events, '*', 'event', 'deduplicated', 'jobId', id,
    'deduplicationId', rule.id, 'deduplicatedJobId', owner)
  redis.call('DEL', queue.base .. 'dn:' .. rule.id)
  if rule.ttl and not rule.extend and not rule.keepLastIfActive then
    redis.call('SET', key, id, 'KEEPTTL')
  else
    own_deduplication(key, id, rule)
  end
  return true
end

--- Free the deduplication id of a job that is about to be removed.
--- uses  field_of
local function free_deduplication(queue, id)
  local deduplication = field_of(queue.base .. id, 'deid')
  if not deduplication then return end
  local key = queue.base .. 'de:' .. deduplication
  if redis.pcall('GET', key) ~= id then return end
  redis.call('DEL', key, queue.base .. 'dn:' .. deduplication)
end

--- Free the deduplication id of a finished job, and add the duplicate that was kept for later.
--- A key with a TTL runs out by itself.
--- uses  own_deduplication store_job enqueue_job
local function release_deduplication(queue, deduplication, id, now)
  local key, next_key = queue.base .. 'de:' .. deduplication, queue.base .. 'dn:' .. deduplication
  local owner = redis.call('GET', key)
  if owner == id and redis.call('PTTL', key) == -1 then redis.call('DEL', key) end
  local kept = redis.call('HMGET', next_key,
    'name', 'data', 'opts', 'jid', 'pk', 'pd', 'pdk', 'rjk')
  if not kept[1] then return end
  -- A job that stands in its place meanwhile makes the kept one when it has finished itself.
  if owner and owner ~= id and redis.call('EXISTS', queue.base .. owner) == 1 then return end

  local number = string.format('%.0f', redis.call('INCR', queue.base .. 'id'))
  local next_id = kept[4] or number
  if redis.call('EXISTS', queue.base .. next_id) == 1 then next_id = number end
  local is_read, opts = pcall(cjson.decode, kept[3] or '')
  if not is_read or type(opts) ~= 'table' then opts = {} end
  local rule = type(opts.de) == 'table' and opts.de or { keepLastIfActive = true }
  local delay, priority = tonumber(opts.delay) or 0, tonumber(opts.priority) or 0
  local more = { 'deid', deduplication }
  for name, value in pairs({ parentKey = kept[5], parent = kept[6], rjk = kept[8] }) do
    if value then
      more[#more + 1] = name
      more[#more + 1] = value
    end
  end
  own_deduplication(key, next_id, rule)
  store_job(queue, next_id, kept[1], kept[2] or '{}', kept[3] or '{}', nil, now, delay,
    priority,
    unpack(more))
  enqueue_job(queue, next_id, now, delay, priority, opts.lifo == true)
  if kept[7] then redis.call('SADD', kept[7], queue.base .. next_id) end
  redis.call('DEL', next_key)
end
