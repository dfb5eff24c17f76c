--- Claim the next jobs: what waits, then what is prioritized, as limits and pauses allow.
--- The reply has an id and the fields of each, then how long the rate limit lets nothing through.
--- The rules are what the queue's meta says about paused, concurrency, max and duration; the instant
--- is text, because the server writes out a number more slowly than it copies a text.
--- With groups, which the queue's meta says last of all, they take turns; then the reply ends with
--- how long it takes until one that is held may start a job.
--- uses  limit_of
--- lazy  take_in_turn mark_groups
local function claim_jobs(queue, rules, want, token, lease_ms, worker, max, duration, now)
  max = (rules[3] or max ~= '') and limit_of(rules[3] or max)
  local window = max and limit_of(duration ~= '' and duration or rules[4])
  if max then
    local ttl = redis.call('PTTL', queue.limiter)
    -- In its last millisecond a window no longer binds; counted into, it would take the count along.
    -- And one without an end would bind for ever.
    if ttl == 0 or ttl == -1 then redis.call('DEL', queue.limiter) end
    local started = ttl > 0 and tonumber(redis.call('GET', queue.limiter)) or 0
    if started >= max then return {}, ttl end
    want = math.min(want, max - started)
  end
  if rules[1] then return {}, 0 end
  local most = rules[2] and limit_of(rules[2])
  if most then want = math.min(want, most - redis.call('LLEN', queue.active)) end
  if want < 1 then return {}, 0 end

  local ids, known, held_ms, turns = nil, nil, 0, nil
  local has_groups = rules[7] or type(queue.has_groups) == 'number'
  if has_groups then
    local has_parents = rules[7] == '2' or queue.has_groups == 2
    ids, known, held_ms, turns = lazy().take_in_turn(queue, want, tonumber(now), has_parents)
  else
    ids = redis.call('RPOP', queue.wait, want) or {}
    if #ids < want then
      local first = redis.call('ZPOPMIN', queue.prioritized, want - #ids)
      -- Deleted only if it is the counter: a job of Node's may be called like it.
      if #first == 0 then redis.pcall('GETDEL', queue.pc) end
      for place = 1, #first, 2 do ids[#ids + 1] = first[place] end
    end
  end

  local claims, live, counted = {}, {}, 0
  for nth, id in ipairs(ids) do
    local job = queue.base .. id
    local fields = known and known[nth] or redis.pcall('HGETALL', job)
    -- An id whose job is gone leaves the queue here; it is no job to run, and nor is an error.
    local is_job = #fields > 0
    if is_job and redis.call('SET', job .. ':lock', token, 'NX', 'PX', lease_ms) then
      live[#live + 1] = id
      claims[#claims + 1], claims[#claims + 2] = id, fields
      counted = counted + 1
      local started = '1'
      for field = 1, #fields, 2 do
        local name = fields[field]
        if name == 'ats' then
          started = string.format('%.0f', (tonumber(fields[field + 1]) or 0) + 1)
        elseif name == 'defa' then
          -- It is only picked up to fail, which is no start.
          counted = counted - 1
        end
      end
      if turns then
        redis.call('XADD', queue.events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting',
          'workerId', worker, unpack(turns[nth]))
      else
        redis.call('XADD', queue.events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting',
          'workerId', worker)
      end
      redis.call('HSET', job, 'processedOn', now, 'pb', worker, 'ats', started)
    elseif is_job and not redis.call('LPOS', queue.active, id) then
      -- Another worker holds it, so it belongs to the active ones, where the stalled check finds it.
      live[#live + 1] = id
    end
  end
  for first = 1, #live, 1000 do
    redis.call('LPUSH', queue.active, unpack(live, first, math.min(first + 999, #live)))
  end
  if #claims == 0 then return {}, 0, held_ms end
  if max and window and counted > 0 then
    local started = redis.pcall('INCRBY', queue.limiter, counted)
    if type(started) == 'table' then
      -- Another client may have written anything there, and jobs must go on.
      redis.call('SET', queue.limiter, counted, 'PX', window)
    elseif started == counted then
      redis.call('PEXPIRE', queue.limiter, window)
    end
  end
  if not queue.is_marked then redis.call('ZADD', queue.marker, 0, '0') end
  if has_groups then lazy().mark_groups(queue) end
  return claims, 0, held_ms
end

--- Take a job back from the worker that holds this token; 0, or why not.
--- `held` is the token of its holder, if that has been read.
--- lazy  release_grouped
local function take_back(queue, id, token, held)
  local job = queue.base .. id
  if held == nil then held = redis.call('GET', job .. ':lock') end
  if redis.call('HLEN', job) == 0 then return -1 end
  if held ~= token then return held and -6 or -2 end
  if redis.call('LREM', queue.active, -1, id) == 0 then return -3 end
  redis.call('DEL', job .. ':lock')
  redis.call('SREM', queue.stalled, id)
  local path = redis.call('HGET', job, 'gid')
  if path then lazy().release_grouped(queue, id, path) end
  return 0
end

--- Put a job back at the head of its queue as if it had not been claimed; 0, or an error code.
--- uses  take_back waiting_list mark_ready
--- lazy  return_grouped
local function hand_back(queue, id, token, held)
  local code = take_back(queue, id, token, held)
  if code ~= 0 then return code end
  local place = redis.call('HMGET', queue.base .. id, 'priority', 'gid')
  local priority = tonumber(place[1]) or 0
  if place[2] then
    lazy().return_grouped(queue, id, place[2])
  elseif priority > 0 then
    redis.call('ZADD', queue.prioritized, priority * 4294967296, id)
  else
    redis.call('RPUSH', waiting_list(queue), id)
  end
  mark_ready(queue)
  redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
  return 0
end

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
