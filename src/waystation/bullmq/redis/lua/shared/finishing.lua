--- File a finished job away: its fields, its set, what is to be kept, and who waits for it.
--- The attempt counts, unless the job `is_cancelled`; returns how many have been made.
--- uses  forget_job trim_finished read_parent child_completed child_failed leave_parent
--- uses  release_deduplication count_up keep_for_history
local function file_finished(queue, id, target, value, keep, now, is_cancelled)
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
  local made = is_cancelled and (tonumber(redis.call('HGET', job, 'atm')) or 0) or count_up(job, 'atm')
  if keep == '0' then
    -- Nobody can wait for a job that is no longer there.
    if ties[1] then leave_parent(queue, job, ties[1], now) end
    keep_for_history(queue, id, now, target == 'completed' and 'returnvalue' or 'failedReason', value)
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

--- File a job away that has failed for good; 0, or why not.
--- uses  take_back file_finished set_cause
local function finish_failed(queue, id, token, reason, stacktrace, keep, attempts, cause, now, held)
  local code = take_back(queue, id, token, held)
  if code ~= 0 then return code end
  local job = queue.base .. id
  redis.call('HSET', job, 'stacktrace', stacktrace)
  redis.call('HDEL', job, 'defa')
  if cause ~= '' then set_cause(job, cause, now) end
  local made = file_finished(queue, id, 'failed', reason, keep, now)
  redis.call('XADD', queue.events, '*', 'event', 'failed', 'jobId', id, 'failedReason', reason,
    'prev', 'active', 'attemptsMade', made)
  if made >= attempts then
    redis.call('XADD', queue.events, '*', 'event', 'retries-exhausted', 'jobId', id,
      'attemptsMade', made)
  end
  return 0
end

--- Write down what made a job fail, if it was no error of its handler. It counts for the end at this
--- instant only: other clients run a job again without knowing the field.
local function set_cause(job, cause, now)
  redis.call('HSET', job, 'cause', cause .. ':' .. string.format('%.0f', now))
end

--- Make a job wait whose attempt failed, or delay it; 0, or an error code.
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

--- Forget finished jobs beyond an age in seconds or a number; at most `limit` by age, and 1,000 by
--- number, in one call: the next one goes on.
--- uses  field_of check_parent forget_job leave_parent keep_for_history
local function trim_finished(queue, set, now, count, age, limit)
  local gone = {}
  if age and age > 0 then
    gone = redis.call('ZRANGEBYSCORE', set, '-inf', now - age * 1000, 'LIMIT', 0, limit or 1000)
  end
  if count and count > 0 then
    local aged = #gone
    local many = math.min(redis.call('ZCARD', set) - aged - count, 1000)
    local extra = many > 0 and redis.call('ZRANGE', set, aged, aged + many - 1) or {}
    for _, id in ipairs(extra) do gone[#gone + 1] = id end
  end
  local leaving, parents = {}, {}
  for _, id in ipairs(gone) do
    -- A failed child may still be waited for, but not when it is no longer there. It stays as long
    -- as its parent could not be informed.
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
    keep_for_history(queue, id, now)
    forget_job(job)
  end
end

--- Count one more in a field of a job; what stands there may be no number, and counts as none.
local function count_up(job, field)
  local count = redis.pcall('HINCRBY', job, field, 1)
  if type(count) == 'number' then return count end
  redis.call('HSET', job, field, 1)
  return 1
end

--- Write what a job was into an event before it is removed, when a history follows the queue and has
--- not read it yet; `field` and `value` are how the job ends now. No job fails for its history.
--- uses  write_history
local function keep_for_history(queue, id, now, field, value)
  pcall(write_history, queue, id, now, field, value)
end

--- What `keep_for_history` does.
--- uses  field_of bound_stream
local function write_history(queue, id, now, field, value)
  -- How far the history has come, and until when that counts, in milliseconds.
  local reached, until_ms = string.match(field_of(queue.meta, 'history') or '', '^(%d+):(%d+)$')
  if not reached or tonumber(until_ms) < now then return end
  local job = queue.base .. id
  local ended = tonumber(field_of(job, 'finishedOn') or now)
  if not field and ended and ended <= tonumber(reached) then return end
  -- More would not fit into one command.
  if redis.call('HLEN', job) > 1000 then return end
  local fields = redis.call('HGETALL', job)
  if #fields == 0 then return end
  if field then
    for _, each in ipairs({ field, value, 'finishedOn', now }) do fields[#fields + 1] = each end
  end
  local size = 0
  for _, each in ipairs(fields) do size = size + #tostring(each) end
  -- The stream is memory: what is too large for it is left out, and counted as missing.
  if size > 65536 then return end
  local lines = redis.pcall('LRANGE', job .. ':logs', -100, -1)
  if not lines.err and #lines > 0 then
    fields[#fields + 1] = 'logs'
    fields[#fields + 1] = cjson.encode(lines)
  end
  redis.call('XADD', queue.events, '*', 'event', 'kept', 'jobId', id, unpack(fields))
  bound_stream(queue.events, size)
end
