--- Wake an idle worker, unless the queue hands out nothing now.
--- A script that has looked before says so with true or false: `is_marked`, `is_held`.
--- uses  is_held_back
local function mark_ready(queue)
  if queue.is_marked == true then return end
  local is_held = queue.is_held
  if type(is_held) ~= 'boolean' then is_held = is_held_back(queue) end
  if not is_held then redis.call('ZADD', queue.marker, 0, '0') end
end
