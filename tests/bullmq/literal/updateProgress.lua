-- KEYS[1] = job hash, KEYS[2] = events stream
redis.call("HSET", KEYS[1], "progress", ARGV[1])
redis.call("XADD", KEYS[2], "*",
    "event", "progress",
    "jobId", ARGV[2],
    "progress", ARGV[1],
    "timestamp", ARGV[3]
)
return 1
