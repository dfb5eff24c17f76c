--- True unless BullMQ 6 opened the queue last, by the version in its `meta`: then BullMQ 5 may come.
local function may_meet_5(version)
  if not version or string.find(version, '+waystation', 1, true) then return true end
  local generation = tonumber(string.match(version, '^bullmq:(%d+)%.'))
  return not generation or generation < 6
end

--- The list that takes waiting jobs. BullMQ 5 keeps a paused queue's jobs in a list of its own, and
--- writes that list over `wait` when it resumes, so where it may come every waiting job goes there.
--- uses  may_meet_5
local function waiting_list(queue)
  local state = redis.call('HMGET', queue.meta, 'paused', 'version')
  if state[1] and (may_meet_5(state[2]) or redis.call('EXISTS', queue.paused) == 1) then
    return queue.paused
  end
  return queue.wait
end

--- True when a job is in a state, by the names that the outside gives them.
local function is_in_state(queue, id, state)
  if state == 'waiting' then
    return redis.call('LPOS', queue.wait, id) or redis.call('LPOS', queue.paused, id)
      or redis.call('ZSCORE', queue.base .. 'de', id)
  end
  if state == 'active' or state == 'paused' then return redis.call('LPOS', queue[state], id) end
  return redis.call('ZSCORE', queue[state], id)
end

--- True when no job may start now: paused, or at the global concurrency.
--- uses  limit_of
local function is_held_back(queue)
  local state = redis.call('HMGET', queue.meta, 'paused', 'concurrency')
  if state[1] then return true end
  local most = limit_of(state[2])
  return most and redis.call('LLEN', queue.active) >= most
end

--- Bring what waits into one of `wait` and `paused`, whichever has more, so many ids in a call; the
--- reply is how many are left to move. What is in `paused` is older.
local function join_waiting(queue, most)
  local newer, older = redis.call('LLEN', queue.wait), redis.call('LLEN', queue.paused)
  if newer == 0 or older == 0 then return 0 end
  local ids
  if newer <= older then
    ids = redis.call('LRANGE', queue.wait, -most, -1)
    for last = #ids, 1, -1 do redis.call('LPUSH', queue.paused, ids[last]) end
    redis.call('LTRIM', queue.wait, 0, -#ids - 1)
  else
    ids = redis.call('LRANGE', queue.paused, 0, most - 1)
    for _, id in ipairs(ids) do redis.call('RPUSH', queue.wait, id) end
    redis.call('LTRIM', queue.paused, #ids, -1)
  end
  return math.min(newer, older) - #ids
end

--- Move what waits to where BullMQ 5 keeps the jobs of a paused queue, where it may come; so many ids
--- in a call. The reply is how many are left to move.
--- uses  may_meet_5 join_waiting
local function set_aside(queue, version, most)
  if not may_meet_5(version) then return 0 end
  local left = join_waiting(queue, most)
  if left == 0 and redis.call('EXISTS', queue.wait) == 1 then
    redis.call('RENAME', queue.wait, queue.paused)
  end
  return left
end

--- Put a job among the delayed, behind those of the same millisecond; returns nothing.
local function push_delayed(queue, id, due)
  -- What is later than in 2039 has no place in the order of delayed jobs.
  local least = math.floor(math.min(due, 2199023255551)) * 4096
  local most = least + 4095
  local last = redis.call('ZREVRANGEBYSCORE', queue.delayed, most, least, 'WITHSCORES', 'LIMIT', 0, 1)
  local score = least
  if last[2] then score = math.min(tonumber(last[2]) + 1, most) end
  redis.call('ZADD', queue.delayed, score, id)
end

--- Put a job behind the others of its priority.
local function push_prioritized(queue, id, priority)
  local arrival = redis.pcall('INCR', queue.pc)
  if type(arrival) == 'table' then
    -- Another client may have written anything there, and jobs must go on.
    redis.call('SET', queue.pc, 1)
    arrival = 1
  end
  arrival = arrival % 4294967296
  redis.call('ZADD', queue.prioritized, priority * 4294967296 + arrival, id)
end

--- Make a stored job wait: in its group, by its priority, or in the list of those without either.
--- uses  push_prioritized waiting_list
--- lazy  push_grouped
local function make_wait(queue, id, priority, lifo)
  local path = redis.call('HGET', queue.base .. id, 'gid')
  if path then
    lazy().push_grouped(queue, id, path, priority, lifo)
  elseif priority > 0 then
    push_prioritized(queue, id, priority)
  else
    redis.call(lifo and 'RPUSH' or 'LPUSH', waiting_list(queue), id)
  end
end

--- Put a stored job where it belongs: delayed, prioritized or waiting; `prev` is where it was.
--- uses  push_delayed mark_delayed make_wait mark_ready
local function enqueue_job(queue, id, timestamp, delay, priority, lifo, prev)
  if delay > 0 then
    local due = timestamp + delay
    push_delayed(queue, id, due)
    redis.call('XADD', queue.events, '*', 'event', 'delayed', 'jobId', id,
      'delay', string.format('%.0f', due))
    mark_delayed(queue)
    return
  end
  make_wait(queue, id, priority, lifo)
  mark_ready(queue)
  if prev then
    redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id, 'prev', prev)
  else
    redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id)
  end
end

--- Move delayed jobs that are due to the waiting ones.
--- uses  push_prioritized mark_ready waiting_list
--- lazy  push_grouped
local function promote_due(queue, now)
  local due = redis.call('ZRANGEBYSCORE', queue.delayed, 0, (now + 1) * 4096 - 1, 'LIMIT', 0, 1000)
  if #due == 0 then return end
  redis.call('ZREM', queue.delayed, unpack(due))
  local list = waiting_list(queue)
  for _, id in ipairs(due) do
    local job = queue.base .. id
    local place = redis.pcall('HMGET', job, 'priority', 'gid')
    local is_job = not place.err and redis.call('EXISTS', job) == 1
    -- An id whose job is gone, or is no job, leaves the set and goes nowhere.
    if is_job then
      local priority = tonumber(place[1]) or 0
      if place[2] then
        lazy().push_grouped(queue, id, place[2], priority)
      elseif priority > 0 then
        push_prioritized(queue, id, priority)
      else
        redis.call('LPUSH', list, id)
      end
      redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'delayed')
      redis.call('HSET', job, 'delay', 0)
    end
  end
  mark_ready(queue)
end

--- Take a job out of whatever set holds it; the reply is what held it.
--- uses  leave_group
local function drop_from_sets(queue, id)
  for _, state in ipairs({ 'completed', 'waiting-children', 'delayed', 'failed', 'prioritized' }) do
    if redis.call('ZREM', queue[state], id) == 1 then return state end
  end
  if leave_group(queue, id) then return 'wait' end
end

--- Take jobs out of the lists that hold them; `was_in` of each is what held it.
--- uses  field_of
--- lazy  release_grouped
local function drop_from_lists(queue, jobs)
  for _, state in ipairs({ 'wait', 'paused', 'active' }) do
    local key, wanted = queue[state], {}
    for _, job in ipairs(jobs) do
      if #jobs > 10 then
        wanted[job.id] = not job.was_in and job or nil
      elseif not job.was_in and redis.call('LREM', key, 1, job.id) == 1 then
        job.was_in = state
      end
    end
    -- Each search goes through the list, so many jobs are looked for in one. No id is empty.
    for place, id in ipairs(next(wanted) and redis.call('LRANGE', key, 0, -1) or {}) do
      if wanted[id] then
        redis.call('LSET', key, place - 1, '')
        wanted[id].was_in, wanted[id] = state, nil
      end
    end
    if #jobs > 10 then redis.call('LREM', key, 0, '') end
  end
  for _, job in ipairs(jobs) do
    local path = job.was_in == 'active' and field_of(queue.base .. job.id, 'gid')
    if path then lazy().release_grouped(queue, job.id, path) end
  end
end

--- Take a job out of whatever holds it; the reply is what held it.
--- uses  drop_from_sets drop_from_lists
local function drop_from_states(queue, id)
  local job = { id = id, was_in = drop_from_sets(queue, id) }
  if not job.was_in then drop_from_lists(queue, { job }) end
  return job.was_in or 'unknown'
end

--- Wake an idle worker, unless no job may start now.
--- A script that has looked before says so with true or false: `is_marked`, `is_held`.
--- uses  is_held_back
local function mark_ready(queue)
  if queue.is_marked == true then return end
  local is_held = queue.is_held
  if type(is_held) ~= 'boolean' then is_held = is_held_back(queue) end
  if is_held then return end
  redis.call('ZADD', queue.marker, 0, '0')
  queue.is_marked = true
end

--- Set for idle workers when the next delayed job is due.
local function mark_delayed(queue)
  local first = redis.call('ZRANGE', queue.delayed, 0, 0, 'WITHSCORES')
  if first[2] then redis.call('ZADD', queue.marker, first[2] / 4096, '1') end
end
