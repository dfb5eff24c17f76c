--- The list that takes waiting jobs: BullMQ 5 sets a paused queue's jobs aside in one of its own.
local function waiting_list(queue)
  if redis.call('EXISTS', queue.paused) == 1 and redis.call('HEXISTS', queue.meta, 'paused') == 1 then
    return queue.paused
  end
  return queue.wait
end
