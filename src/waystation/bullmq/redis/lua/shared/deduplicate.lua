--- Find the job that stands for this one; nothing when this one is to be added and now stands.
--- uses  own_deduplication replace_delayed push_delayed mark_delayed
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
    -- The key should have gone with its job; nobody would ever free it.
    redis.call('DEL', next_key)
    own_deduplication(key, id, rule)
    return
  end

  local is_kept = rule.keepLastIfActive and redis.call('LPOS', queue.active, owner)
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

  if rule.reschedule and not rule.replace and redis.call('ZSCORE', queue.delayed, owner) then
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
