--- Wake an idle worker, unless the queue hands out nothing now.
--- uses  is_held_back
local function mark_ready(queue)
  if not is_held_back(queue) then redis.call('ZADD', queue.marker, 0, '0') end
end
