-- The document's algorithm, word for word: lock, load, check, match the first hundred.
local waiting, active, paused = KEYS[1], KEYS[2], KEYS[3]
local worker, now, ttl = ARGV[1], ARGV[5], ARGV[6]
local stack, capabilities, region =
  cjson.decode(ARGV[2]), cjson.decode(ARGV[3]), cjson.decode(ARGV[4])

local function intersects(wanted, has)
  if not wanted or #wanted == 0 then return true end
  for _, w in ipairs(wanted) do
    for _, h in ipairs(has) do if w == h then return true end end
  end
  return false
end

for _, id in ipairs(redis.call('LRANGE', waiting, 0, 99)) do
  local lock = ARGV[8] .. id
  if redis.call('SET', lock, worker, 'NX', 'EX', ttl) then
    local data = redis.call('GET', ARGV[7] .. id)
    local matches = false
    if data then
      local job = cjson.decode(data)
      local target = job.target or {}
      local counter = ARGV[9] .. job.type
      local limit = job.rateLimit and job.rateLimit.maxConcurrent
      local limited = limit and tonumber(redis.call('GET', counter) or 0) >= limit
      if redis.call('SISMEMBER', paused, job.type) == 0 and not limited then
        if target.server then
          matches = target.server == worker
        else
          matches = intersects(target.stack, stack)
            and intersects(target.capabilities, capabilities)
            and intersects(target.region, region)
        end
      end
      if matches then
        redis.call('LREM', waiting, 1, id)
        redis.call('SADD', active, id)
        redis.call('INCR', counter)
        return data
      end
    end
    redis.call('DEL', lock)
  end
end
return nil
