--- Put a stored job where it belongs: delayed, prioritized or waiting; `prev` is where it was.
--- uses  push_delayed mark_delayed push_prioritized mark_ready waiting_list
local function enqueue_job(queue, id, timestamp, delay, priority, lifo, prev)
  if delay > 0 then
    local due = timestamp + delay
    push_delayed(queue, id, due)
    redis.call('XADD', queue.events, '*', 'event', 'delayed', 'jobId', id,
      'delay', string.format('%.0f', due))
    mark_delayed(queue)
    return
  end
  if priority > 0 then
    push_prioritized(queue, id, priority)
  else
    redis.call(lifo and 'RPUSH' or 'LPUSH', waiting_list(queue), id)
  end
  mark_ready(queue)
  if prev then
    redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id, 'prev', prev)
  else
    redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id)
  end
end
