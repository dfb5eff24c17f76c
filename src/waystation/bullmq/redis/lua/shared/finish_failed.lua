--- File a job away that has failed for good; 0, or why not.
--- uses  take_back file_finished
local function finish_failed(queue, id, token, reason, stacktrace, keep, attempts, now, held)
  local code = take_back(queue, id, token, held)
  if code ~= 0 then return code end
  local job = queue.base .. id
  redis.call('HSET', job, 'stacktrace', stacktrace)
  redis.call('HDEL', job, 'defa')
  local made = file_finished(queue, id, 'failed', reason, keep, now)
  redis.call('XADD', queue.events, '*', 'event', 'failed', 'jobId', id, 'failedReason', reason,
    'prev', 'active', 'attemptsMade', made)
  if made >= attempts then
    redis.call('XADD', queue.events, '*', 'event', 'retries-exhausted', 'jobId', id,
      'attemptsMade', made)
  end
  return 0
end
