--- Hand the next fitting jobs to a worker: match first, write after.
--- uses  learn choose take_out unindex_jobs tell whole wake_for queue_of bury_unreadable raise_count
local function claim_jobs(line, now, profile, worker, want, token, lease_ms)
  local serves, unread = learn(line, profile)
  local locked, limited_ms = choose(line, serves, want, worker, lease_ms)
  if #locked == 0 then return {}, limited_ms, unread end

  local keys = {}
  for at, job in ipairs(locked) do keys[at] = line.data .. job.id end
  local data = redis.call('MGET', unpack(keys))
  local leading, in_front = redis.call('LRANGE', line.waiting, 0, #locked - 1), true
  local ids, leaving = {}, {}
  for at, job in ipairs(locked) do
    ids[at] = job.id
    in_front = in_front and leading[at] == job.id
    leaving[job.signature] = leaving[job.signature] or {}
    table.insert(leaving[job.signature], job.id)
  end
  if in_front then
    redis.call('LPOP', line.waiting, #locked)
    redis.call('ZREM', line.places, unpack(ids))
  end

  local claims, active, records, deadlines, states, void = {}, {}, {}, {}, {}, {}
  local counted, metered = {}, {}
  local deadline, at_ms = whole(now + lease_ms), whole(now)
  for at, job in ipairs(locked) do
    local id, there = job.id, in_front or take_out(line, job.id)
    if there and data[at] then
      if job.counted then counted[job.queue] = (counted[job.queue] or 0) + 1 end
      if job.metered then metered[job.queue] = (metered[job.queue] or 0) + 1 end
      claims[#claims + 1] = id
      claims[#claims + 1] = data[at]
      active[#active + 1] = id
      records[#records + 1] = id
      records[#records + 1] = table.concat({
        token, job.counted and 1 or 0, job.turn, at_ms, #worker, worker, job.queue }, ' ')
      deadlines[#deadlines + 1] = deadline
      deadlines[#deadlines + 1] = id
      states[#states + 1] = line.status .. id
      states[#states + 1] = 'active'
      tell(line, now, 'active', job.queue, id, 'worker', worker, 'prev', 'waiting')
    else
      -- Its data is gone, or somebody has taken it out of the list without the index.
      void[#void + 1] = line.lock .. id
      if there then bury_unreadable(line, now, id, 'gone', job.queue) end
    end
  end
  if #void > 0 then redis.call('DEL', unpack(void)) end
  local left = {}
  for signature, gone in pairs(leaving) do
    if unindex_jobs(line, signature, gone) then left[#left + 1] = signature end
  end
  if #active > 0 then
    redis.call('SADD', line.active, unpack(active))
    redis.call('HSET', line.claims, unpack(records))
    redis.call('ZADD', line.leases, unpack(deadlines))
    redis.call('MSET', unpack(states))
  end
  -- Whoever was woken for one of them may have found too little; there is more.
  for _, signature in ipairs(left) do wake_for(line, queue_of(signature), signature) end
  for queue, count in pairs(counted) do raise_count(line.concurrent .. queue, count) end
  for queue, count in pairs(metered) do
    if raise_count(line.minute .. queue, count) == count then
      redis.call('EXPIRE', line.minute .. queue, 60)
    end
  end
  return claims, limited_ms, unread
end
