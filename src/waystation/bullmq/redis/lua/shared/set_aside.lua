--- Move what waits to where BullMQ 5 keeps the jobs of a paused queue, if it shares this one.
--- uses  is_shared_with_5
local function set_aside(queue, version)
  if not is_shared_with_5(version) then return end
  if redis.call('EXISTS', queue.paused) == 0 then
    if redis.call('EXISTS', queue.wait) == 1 then redis.call('RENAME', queue.wait, queue.paused) end
    return
  end
  local later = redis.call('LRANGE', queue.wait, 0, -1)
  for last = #later, 1, -1 do redis.call('LPUSH', queue.paused, later[last]) end
  redis.call('DEL', queue.wait)
end
