--- Forget finished jobs beyond an age in seconds or a number; at most `limit` by age in one call.
--- uses  field_of check_parent forget_job leave_parent
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
  local leaving, parents = {}, {}
  for _, id in ipairs(gone) do
    -- A failed child may still be waited for, but not when it is no longer there. It stays as long
    -- as its parent cannot be told.
    local parent_key = set == queue.failed and field_of(queue.base .. id, 'parentKey') or false
    if not parent_key or pcall(check_parent, queue.base, parent_key, {}) then
      leaving[#leaving + 1] = id
      parents[#leaving] = parent_key
    end
  end
  for first = 1, #leaving, 1000 do
    redis.call('ZREM', set, unpack(leaving, first, math.min(first + 999, #leaving)))
  end
  for nth, id in ipairs(leaving) do
    local job = queue.base .. id
    if parents[nth] then leave_parent(queue, job, parents[nth], now) end
    forget_job(job)
  end
end
