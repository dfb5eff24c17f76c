-- Check attempts
local attemptsMade = redis.call("HGET", KEYS[3], "attemptsMade")
local maxAttempts = redis.call("HGET", KEYS[3], "opts")  -- parse JSON for attempts

if tonumber(attemptsMade) >= maxAttempts then
    -- Move to failed (use moveToFailed.lua)
    return 0
end

-- Remove from active
redis.call("LREM", KEYS[1], 0, ARGV[1])
redis.call("DEL", KEYS[4])

-- Requeue with delay
if ARGV[2] > 0 then
    redis.call("ZADD", "bull:{queue}:delayed", ARGV[3] + ARGV[2], ARGV[1])
else
    redis.call("RPUSH", KEYS[2], ARGV[1])
end

-- Emit retry event
redis.call("XADD", KEYS[5], "*",
    "event", "retry",
    "jobId", ARGV[1],
    "delay", ARGV[2]
)

return 1
