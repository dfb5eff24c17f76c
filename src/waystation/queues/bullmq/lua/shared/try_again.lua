--- Put a job whose attempt failed back into the line, or among the delayed; 0, or why not.
--- uses  take_back push_delayed mark_delayed push_prioritized waiting_list mark_ready count_up
local function try_again(queue, id, token, reason, stacktrace, delay, lifo, now)
  local code = take_back(queue, id, token)
  if code ~= 0 then return code end
  local job = queue.base .. id
  redis.call('HSET', job, 'failedReason', reason, 'stacktrace', stacktrace)
  local made = count_up(job, 'atm')
  if delay > 0 then
    redis.call('HSET', job, 'delay', delay)
    push_delayed(queue, id, now + delay)
    redis.call('XADD', queue.events, '*', 'event', 'delayed', 'jobId', id,
      'delay', string.format('%.0f', now + delay))
    mark_delayed(queue)
  else
    local priority = tonumber(redis.call('HGET', job, 'priority')) or 0
    if priority > 0 then
      push_prioritized(queue, id, priority)
    else
      redis.call(lifo and 'RPUSH' or 'LPUSH', waiting_list(queue), id)
    end
    mark_ready(queue)
    redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
  end
  -- Beside BullMQ's own events, for those who remember: Node's listeners pass over it.
  redis.call('XADD', queue.events, '*', 'event', 'retry', 'jobId', id, 'delay', delay,
    'attemptsMade', made, 'failedReason', reason)
  return 0
end
