--- What is known about how many jobs of a type may start.
--- uses  limit_of
local function room_for(line, queue)
  if redis.call('SISMEMBER', line.paused, queue) == 1 then return { paused = true } end
  local config = redis.call('HGET', line.limits, queue)
  local read, limit = pcall(cjson.decode, config or '')
  return { limit = read and limit_of(limit) or nil }
end
