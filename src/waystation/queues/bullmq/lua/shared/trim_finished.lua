--- Forget finished jobs beyond an age in seconds or a number; at most `limit` by age in one call.
--- uses  forget_job leave_parent
local function trim_finished(queue, set, now, count, age, limit)
  local gone = {}
  if age and age > 0 then
    gone = redis.call('ZRANGEBYSCORE', set, '-inf', now - age * 1000, 'LIMIT', 0, limit or 1000)
  end
  if count and count > 0 then
    local aged = #gone
    local extra = redis.call('ZRANGE', set, aged, -(count + 1))
    for _, id in ipairs(extra) do gone[#gone + 1] = id end
  end
  for first = 1, #gone, 1000 do
    redis.call('ZREM', set, unpack(gone, first, math.min(first + 999, #gone)))
  end
  for _, id in ipairs(gone) do
    local job = queue.base .. id
    -- A failed child may still be waited for, but not when it is no longer there.
    local parent_key = set == queue.failed and redis.call('HGET', job, 'parentKey')
    if parent_key then leave_parent(queue, job, parent_key, now) end
    forget_job(job)
  end
end
