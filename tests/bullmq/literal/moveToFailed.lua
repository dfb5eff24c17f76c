redis.call("LREM", KEYS[1], 0, ARGV[1])
redis.call("DEL", KEYS[4])
redis.call("HMSET", KEYS[3],
    "failedReason", ARGV[2],
    "stacktrace", ARGV[3],
    "finishedOn", ARGV[4]
)
redis.call("ZADD", KEYS[2], ARGV[4], ARGV[1])
redis.call("XADD", KEYS[5], "*",
    "event", "failed",
    "jobId", ARGV[1],
    "failedReason", ARGV[2]
)
-- Handle removeOnFail...
