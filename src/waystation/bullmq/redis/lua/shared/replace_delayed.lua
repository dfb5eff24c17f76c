--- Remove the delayed job that a newer one replaces; false when it is not delayed.
--- uses  forget_job leave_parent own_deduplication
local function replace_delayed(queue, owner, id, key, rule, now)
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
