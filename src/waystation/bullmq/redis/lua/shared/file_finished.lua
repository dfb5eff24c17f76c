--- File a finished job away: its fields, its set, what is to be kept, and who waits for it.
--- uses  forget_job trim_finished read_parent child_completed child_failed leave_parent
--- uses  release_deduplication count_up
local function file_finished(queue, id, target, value, keep, now)
  local job = queue.base .. id
  local ties = redis.call('HMGET', job, 'parentKey', 'parent', 'deid')
  if ties[3] then release_deduplication(queue, ties[3], id, now) end
  if ties[1] then
    local parent = read_parent(ties[1], ties[2])
    if target == 'completed' then
      child_completed(ties[1], parent, job, value, now)
    else
      child_failed(ties[1], parent, job, value, now)
    end
  end
  local made = count_up(job, 'atm')
  if keep == '0' then
    -- Nobody can wait for a job that is no longer there.
    if ties[1] then leave_parent(queue, job, ties[1], now) end
    forget_job(job)
    return made
  end
  local field = target == 'completed' and 'returnvalue' or 'failedReason'
  redis.call('HSET', job, field, value, 'finishedOn', now)
  redis.call('ZADD', queue[target], now, id)
  if keep ~= '' then
    local count, age, limit = string.match(keep, '([^:]*):([^:]*):([^:]*)')
    trim_finished(queue, queue[target], now, tonumber(count), tonumber(age), tonumber(limit))
  end
  return made
end
