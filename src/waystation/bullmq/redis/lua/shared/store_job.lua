--- Write a new job down and tell that it exists; its id, or nothing when something else than a job
--- lies under it.
local function store_job(queue, id, name, data, opts, timestamp, delay, priority, ...)
  local stored = redis.pcall('HSET', queue.base .. id, 'name', name, 'data', data, 'opts', opts,
    'timestamp', timestamp, 'delay', delay, 'priority', priority, ...)
  if type(stored) == 'table' then
    if not string.find(stored.err, 'WRONGTYPE', 1, true) then error(stored.err) end
    return nil
  end
  redis.call('XADD', queue.events, '*', 'event', 'added', 'jobId', id, 'name', name)
  return id
end
