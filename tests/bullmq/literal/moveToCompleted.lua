-- 1. Remove from active
redis.call("LREM", KEYS[1], 0, ARGV[1])

-- 2. Delete lock
redis.call("DEL", KEYS[4])

-- 3. Update job hash
redis.call("HMSET", KEYS[3],
    "returnvalue", ARGV[2],
    "finishedOn", ARGV[3]
)

-- 4. Add to completed (ZSET, score = timestamp)
redis.call("ZADD", KEYS[2], ARGV[3], ARGV[1])

-- 5. Emit completed event
redis.call("XADD", KEYS[5], "*",
    "event", "completed",
    "jobId", ARGV[1],
    "timestamp", ARGV[3],
    "returnvalue", ARGV[2]
)

-- 6. Handle removeOnComplete
if ARGV[4] == "true" then
    redis.call("DEL", KEYS[3])
elseif tonumber(ARGV[4]) then
    -- Keep last N jobs
    local count = redis.call("ZCARD", KEYS[2])
    if count > tonumber(ARGV[4]) then
        redis.call("ZREMRANGEBYRANK", KEYS[2], 0, -(tonumber(ARGV[4]) + 1))
    end
end

return 1
