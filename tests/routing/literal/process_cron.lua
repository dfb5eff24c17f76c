-- The document's algorithm, word for word.
local results = {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, ARGV[2])) do
  local data = redis.call('GET', KEYS[3] .. id)
  if data then
    local job = cjson.decode(data)
    redis.call('RPUSH', KEYS[2], id)
    results[#results + 1] = {
      jobId = id, cronExpression = job.schedule.cron, timezone = job.schedule.timezone,
    }
  end
end
return cjson.encode(results)
