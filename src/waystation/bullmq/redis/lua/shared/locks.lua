--- Claim the next jobs: what waits, then what is prioritized, as limits and pauses allow.
--- The reply has an id and the fields of each, then how long the rate limit lets nothing through.
--- The rules are what the queue's meta says about paused, concurrency, max and duration; the instant
--- is text, because the server writes out a number more slowly than it copies a text.
--- uses  limit_of
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

  local ids = redis.call('RPOP', queue.wait, want) or {}
  if #ids < want then
    local first = redis.call('ZPOPMIN', queue.prioritized, want - #ids)
    -- Deleted only if it is the counter: a job of Node's may be called like it.
    if #first == 0 then redis.pcall('GETDEL', queue.pc) end
    for place = 1, #first, 2 do ids[#ids + 1] = first[place] end
  end

  local claims, live = {}, {}
  for _, id in ipairs(ids) do
    local job = queue.base .. id
    local fields = redis.pcall('HGETALL', job)
    -- An id whose job is gone leaves the queue here; it is no job to run, and nor is an error.
    local is_job = #fields > 0
    if is_job and redis.call('SET', job .. ':lock', token, 'NX', 'PX', lease_ms) then
      live[#live + 1] = id
      claims[#claims + 1] = id
      claims[#claims + 1] = fields
    elseif is_job and not redis.call('LPOS', queue.active, id) then
      -- Another worker holds it, so it belongs to the active ones, where the stalled check finds it.
      live[#live + 1] = id
    end
  end
  for first = 1, #live, 1000 do
    redis.call('LPUSH', queue.active, unpack(live, first, math.min(first + 999, #live)))
  end
  local counted = #claims / 2
  if counted == 0 then return {}, 0 end
  for at = 1, #claims, 2 do
    local id, fields, started = claims[at], claims[at + 1], '1'
    for field = 1, #fields, 2 do
      if fields[field] == 'ats' then
        started = string.format('%.0f', (tonumber(fields[field + 1]) or 0) + 1)
      elseif fields[field] == 'defa' then
        -- It is only picked up to fail, which is no start.
        counted = counted - 1
      end
    end
    redis.call('XADD', queue.events, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting',
      'workerId', worker)
    redis.call('HSET', queue.base .. id, 'processedOn', now, 'pb', worker, 'ats', started)
  end
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
  return claims, 0
end

--- Take a job back from the worker that holds this token; 0, or why not.
--- `held` is the token of its holder, if that has been read.
local function take_back(queue, id, token, held)
  local job = queue.base .. id
  if held == nil then held = redis.call('GET', job .. ':lock') end
  if redis.call('HLEN', job) == 0 then return -1 end
  if held ~= token then return held and -6 or -2 end
  if redis.call('LREM', queue.active, -1, id) == 0 then return -3 end
  redis.call('DEL', job .. ':lock')
  redis.call('SREM', queue.stalled, id)
  return 0
end

--- Put a job back at the head of its queue as if it had not been claimed; 0, or an error code.
--- uses  take_back waiting_list mark_ready
local function hand_back(queue, id, token, held)
  local code = take_back(queue, id, token, held)
  if code ~= 0 then return code end
  local priority = tonumber(redis.call('HGET', queue.base .. id, 'priority')) or 0
  if priority > 0 then
    redis.call('ZADD', queue.prioritized, priority * 4294967296, id)
  else
    redis.call('RPUSH', waiting_list(queue), id)
  end
  mark_ready(queue)
  redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
  return 0
end
