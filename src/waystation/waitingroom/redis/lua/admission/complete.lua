--- End a session and free its seat; 0 when it had ended.
--- keys  meta sessions sessions_expiry sessions_began stays session position owner events stats
--- args  queue id status reason now:str|int -> bool
--- uses  instant_us format_int emit_event count learn_end
if redis.call('ZREM', sessions_expiry, id) == 0 then return 0 end
redis.call('SREM', sessions, id)
local us = instant_us(now)
learn_end(stays, redis.call('ZSCORE', sessions_began, id), us)
redis.call('ZREM', sessions_began, id)
local known = redis.call('HMGET', session, 'started_at', 'page_views')
if known[1] then
  redis.call('HSET', session, 'status', status)
  redis.call('EXPIRE', session, 300)
end
if redis.call('EXISTS', position) == 1 then
  redis.call('HSET', position, 'status', 'completed')
  redis.call('EXPIRE', position, 300)
end
if redis.call('GET', owner) == id then redis.call('DEL', owner) end
count(stats, 'total_' .. (status == 'completed' and status or 'terminated'), 1)
emit_event({ queue = queue, now = us, events = events, cap = redis.call('HGET', meta, 'events_cap') },
  status == 'completed' and 'completed' or 'cancelled', id, 'reason', reason,
  'held', format_int(known[1] and us / 1000 - known[1] * 1000 or 0), 'views', known[2] or 0)
return 1
