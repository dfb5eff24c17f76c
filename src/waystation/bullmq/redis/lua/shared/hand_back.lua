--- Put a job back at the head of the line as if it had not been claimed; 0, or why not.
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
