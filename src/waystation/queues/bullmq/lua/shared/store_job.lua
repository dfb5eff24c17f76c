--- Write a new job down and tell that it exists.
local function store_job(queue, id, name, data, opts, timestamp, delay, priority, ...)
  redis.call('HSET', queue.base .. id, 'name', name, 'data', data, 'opts', opts,
    'timestamp', timestamp, 'delay', delay, 'priority', priority, ...)
  redis.call('XADD', queue.events, '*', 'event', 'added', 'jobId', id, 'name', name)
end
