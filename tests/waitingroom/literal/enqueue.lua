-- KEYS[1] = queue:{queue_id}:waiting:{priority}
-- KEYS[2] = queue:{queue_id}:positions
-- KEYS[3] = position:{position_id}
-- KEYS[4] = ipmap:{queue_id}:{ip_hash}
-- KEYS[5] = heartbeat:active
-- ARGV[1] = position_id
-- ARGV[2] = timestamp (microseconds)
-- ARGV[3] = ip_hash
-- ARGV[4] = position TTL (seconds)
-- ARGV[5] = metadata JSON

-- Check for existing position by IP
local existing = redis.call('GET', KEYS[4])
if existing then
    return {0, existing}  -- Return existing position
end

-- Add to queue list
redis.call('RPUSH', KEYS[1], ARGV[1])

-- Add to sorted set for position tracking
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])

-- Create position metadata
redis.call('HSET', KEYS[3],
    'status', 'waiting',
    'enqueued_at', ARGV[2],
    'last_heartbeat', ARGV[2],
    'metadata', ARGV[5]
)
redis.call('EXPIRE', KEYS[3], ARGV[4])

-- Map IP to position
redis.call('SET', KEYS[4], ARGV[1], 'EX', ARGV[4])

-- Add to heartbeat tracking
redis.call('ZADD', KEYS[5], math.floor(ARGV[2] / 1000000), ARGV[1])

return {1, ARGV[1]}  -- Success, return position_id
