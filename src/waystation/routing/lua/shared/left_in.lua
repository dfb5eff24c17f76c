--- How many more jobs may start, and how long a full minute still lasts.
--- uses  text_of number_or
local function left_in(line, queue, room, limit)
  if room.paused then return 0, 0 end
  if not limit then return math.huge, 0 end
  local left = math.huge
  if limit.most then
    room.running = room.running or number_or(0, text_of(line.concurrent .. queue))
    left = limit.most - room.running
  end
  if limit.a_minute then
    room.started = room.started or number_or(0, text_of(line.minute .. queue))
    local now = limit.a_minute - room.started
    if now <= 0 then return 0, math.max(redis.call('PTTL', line.minute .. queue), 1) end
    left = math.min(left, now)
  end
  return left, 0
end
