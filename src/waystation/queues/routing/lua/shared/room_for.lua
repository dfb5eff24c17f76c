--- How many more jobs of a type may start now, whether they are counted, and how long a full
--- minute still lasts.
local function room_for(line, queue)
  if redis.call('SISMEMBER', line.paused, queue) == 1 then return 0, false, 0 end
  local config = redis.call('HGET', line.limits, queue)
  if not config then return math.huge, false, 0 end
  local limit = cjson.decode(config)
  local room, most, a_minute = math.huge, tonumber(limit.maxConcurrent), tonumber(limit.maxPerMinute)
  if most then room = most - (redis.call('GET', line.concurrent .. queue) or 0) end
  if a_minute then
    local left = a_minute - (redis.call('GET', line.minute .. queue) or 0)
    if left <= 0 then return 0, most ~= nil, math.max(redis.call('PTTL', line.minute .. queue), 1) end
    room = math.min(room, left)
  end
  return math.max(room, 0), most ~= nil, 0, a_minute ~= nil
end
