--- Where one job stands, and what its queue allows.
--- The reply has the time, the job's state, how many come before it, its fields, its lock and how
--- long that lasts, when it is due, the rules of the queue (paused, concurrency, max), what its rate
--- limit has counted and how long that lasts, and how many jobs are active and wait.
--- keys  completed failed delayed prioritized active wait paused waiting_children meta limiter
--- keys  grouped absent
--- args  base now:str|int= id -> standing
--- uses  instant_ms stored_fields
local state, place, due = 'unknown', -1, false
for _, set in ipairs({
  { completed, 'completed' }, { failed, 'failed' }, { waiting_children, 'waiting-children' },
}) do
  if redis.call('ZSCORE', set[1], id) then state = set[2] end
end
due = redis.call('ZSCORE', delayed, id)
if due then state, due = 'delayed', string.format('%.0f', math.floor(due / 4096)) end
if redis.call('LPOS', active, id) then state = 'active' end
local rank = redis.call('ZRANK', prioritized, id)
if rank then state, place = 'prioritized', redis.call('LLEN', wait) + rank end
for _, list in ipairs({ wait, paused }) do
  -- The next one is at the right end.
  local at = redis.call('LPOS', list, id, 'RANK', -1)
  if at then state, place = 'waiting', redis.call('LLEN', list) - 1 - at end
end
if redis.call('ZSCORE', grouped, id) then state = 'waiting' end
local job = base .. id
return {
  string.format('%.0f', instant_ms(now)), state, place, stored_fields(job),
  redis.call('GET', job .. ':lock'), redis.call('PTTL', job .. ':lock'), due,
  redis.call('HMGET', meta, 'paused', 'concurrency', 'max'),
  redis.call('GET', limiter), redis.call('PTTL', limiter),
  redis.call('LLEN', active),
  redis.call('LLEN', wait) + redis.call('LLEN', paused) + redis.call('ZCARD', prioritized)
    + redis.call('ZCARD', grouped),
}
