-- Only extend if we own the lock (token matches)
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
else
    return 0  -- Token mismatch or lock not found
end
