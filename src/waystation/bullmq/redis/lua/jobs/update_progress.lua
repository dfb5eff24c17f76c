--- Store a job's progress and emit `progress`: 0, or -1 when it is gone.
--- keys  meta events absent
--- args  base id progress:bytes -> int
--- uses  events_cap
local job = base .. id
if redis.call('HLEN', job) == 0 then return -1 end
redis.call('HSET', job, 'progress', progress)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'progress', 'jobId', id,
  'data', progress)
return 0
