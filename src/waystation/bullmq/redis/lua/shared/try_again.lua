--- Put a job whose attempt failed back into the line, or among the delayed; 0, or why not.
--- uses  take_back count_up enqueue_job
local function try_again(queue, id, token, reason, stacktrace, delay, lifo, now, held)
  local code = take_back(queue, id, token, held)
  if code ~= 0 then return code end
  local job = queue.base .. id
  redis.call('HSET', job, 'failedReason', reason, 'stacktrace', stacktrace)
  local made = count_up(job, 'atm')
  if delay > 0 then redis.call('HSET', job, 'delay', delay) end
  local priority = tonumber(redis.call('HGET', job, 'priority')) or 0
  enqueue_job(queue, id, now, delay, priority, lifo, 'active')
  -- Beside BullMQ's own events, for those who remember: Node's listeners pass over it.
  redis.call('XADD', queue.events, '*', 'event', 'retry', 'jobId', id, 'delay', delay,
    'attemptsMade', made, 'failedReason', reason)
  return 0
end
