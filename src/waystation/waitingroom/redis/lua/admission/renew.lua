--- Keep a session alive, unless it has ended.
--- keys  meta sessions_expiry session position owner
--- args  id views:int now:str|int -> renewal
--- uses  instant_us format_int
local us = instant_us(now)
local ends = tonumber(redis.call('ZSCORE', sessions_expiry, id))
local known = redis.call('HMGET', session, 'started_at', 'page_views')
if not ends or ends <= us or not known[1] then return { 0, 0, 0 } end
local set = redis.call('HMGET', meta, 'session_s', 'session_max_s', 'session_renewal')
local length = tonumber(set[1]) or 3600
local limit = (known[1] + math.max(length, tonumber(set[2]) or length)) * 1000000
-- Where activity does not renew it, whoever passed without waiting still has the whole of it: coming
-- back is what the seat was held briefly for.
local since = set[3] ~= '0' and us or known[1] * 1000000
ends = math.max(ends, math.min(since + length * 1000000, limit))
redis.call('ZADD', sessions_expiry, format_int(ends), id)
redis.call('HSET', session, 'last_activity', format_int(us / 1000000), 'expires_at', format_int(ends / 1000000))
local seen = redis.call('HINCRBY', session, 'page_views', views)
local left = math.max(1, math.ceil((ends - us) / 1000000))
redis.call('EXPIRE', session, left)
redis.call('EXPIRE', position, left)
if redis.call('GET', owner) == id then redis.call('EXPIRE', owner, left) end
return { format_int(ends / 1000), format_int(limit / 1000), seen }
