-- 1. Check pause state
local paused = redis.call("HGET", KEYS[6], "paused")
if paused == "1" then
    return nil  -- Queue paused, no job
end

-- 2. Check rate limit (if applicable)
-- ... (rate limiter logic)

-- 3. Get next job (prioritized first, then wait)
local jobId = redis.call("ZPOPMIN", KEYS[3], 1)
if not jobId or #jobId == 0 then
    jobId = redis.call("LPOP", KEYS[1])
end

if not jobId then
    return nil  -- No jobs available
end

-- 4. Acquire lock
local lockKey = "bull:{queue}:" .. jobId .. ":lock"
redis.call("SET", lockKey, ARGV[2], "PX", ARGV[3])

-- 5. Move to active
redis.call("RPUSH", KEYS[2], jobId)

-- 6. Update job metadata
local jobKey = "bull:{queue}:" .. jobId
redis.call("HMSET", jobKey,
    "processedOn", ARGV[1],
    "workerId", ARGV[4]
)
redis.call("HINCRBY", jobKey, "attemptsMade", 1)

-- 7. Emit active event
redis.call("XADD", KEYS[7], "*",
    "event", "active",
    "jobId", jobId,
    "timestamp", ARGV[1],
    "workerId", ARGV[4]
)

-- 8. Return job data
local jobData = redis.call("HGETALL", jobKey)
return {jobId, jobData}
