--- The list that takes waiting jobs. BullMQ 5 keeps a paused queue's jobs in a list of its own, and
--- writes that list over `wait` when it resumes, so beside it everything goes there, too.
--- uses  is_shared_with_5
local function waiting_list(queue)
  local state = redis.call('HMGET', queue.meta, 'paused', 'version')
  if state[1] and (is_shared_with_5(state[2]) or redis.call('EXISTS', queue.paused) == 1) then
    return queue.paused
  end
  return queue.wait
end
