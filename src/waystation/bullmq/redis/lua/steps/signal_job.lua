--- Send a signal to a job, which waits for it or will: 1, 0 when it has ended, -1 when it is gone.
--- Signals of one name are numbered as they come. The same call made again counts once.
--- keys  wait paused active prioritized delayed completed failed marker meta events pc absent
--- args  base now:str|int= id signal call data:bytes -> int
--- as    queue base
--- uses  instant_ms must_hold enqueue_job events_cap renew_signals
local job = base .. id
if must_hold('HLEN', job) == 0 then return -1 end
local known = redis.call('HMGET', job, 'signals:' .. signal, 'waits', 'priority', 'call:' .. call,
  'signal:' .. signal)
if known[5] then
  renew_signals(job, signal)
  known[4] = redis.call('HGET', job, 'call:' .. call)
end
if known[4] then return 1 end
if redis.call('ZSCORE', completed, id) or redis.call('ZSCORE', failed, id) then return 0 end
local number = string.format('%.0f', (tonumber(known[1]) or 0) + 1)
redis.call('HSET', job, 'signal:' .. signal .. '#' .. number, data, 'signals:' .. signal, number,
  'call:' .. call, number)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'signal', 'jobId', id,
  'signal', signal)
local parked, awaited = string.match(known[2] or '', '^(%d+) (.*)$')
-- An earlier version kept no instant.
awaited = awaited or string.match(known[2] or '', '^signal:([^#]*)')
local score = awaited == signal and redis.call('ZSCORE', delayed, id)
-- A job that is delayed for another reason, such as a retry, stays so.
if score and (not parked or math.floor(score / 4096) == tonumber(parked)) then
  redis.call('ZREM', delayed, id)
  redis.call('HSET', job, 'delay', 0)
  enqueue_job(queue, id, instant_ms(now), 0, tonumber(known[3]) or 0, false, 'delayed')
end
return 1
