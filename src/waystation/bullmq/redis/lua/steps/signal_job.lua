--- Send a signal to a job, which waits for it or will: 1, 0 when it has ended, -1 when it is gone.
--- The same call made again counts once.
--- keys  wait paused active prioritized delayed completed failed marker meta events pc absent
--- args  base now id signal call data
--- uses  now_ms must_hold enqueue_job events_cap
local queue = {
  base = base, wait = wait, paused = paused, active = active, prioritized = prioritized,
  delayed = delayed, marker = marker, meta = meta, events = events, pc = pc,
}
local job, field = base .. id, 'signal:' .. signal
if must_hold('HLEN', job) == 0 then return -1 end
if redis.call('ZSCORE', completed, id) or redis.call('ZSCORE', failed, id) then return 0 end
local known = redis.call('HMGET', job, 'signals:' .. signal, 'waits', 'priority')
local sent = tonumber(known[1]) or 0
local last = redis.call('HGET', job, sent > 1 and field .. '#' .. sent or field)
if last and string.sub(last, 1, #call) == call then return 1 end
if sent > 0 then field = field .. '#' .. (sent + 1) end
redis.call('HSET', job, field, call .. data, 'signals:' .. signal, sent + 1)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'signal', 'jobId', id,
  'signal', signal)
if known[2] == field and redis.call('ZREM', delayed, id) == 1 then
  redis.call('HSET', job, 'delay', 0)
  enqueue_job(queue, id, now_ms(now), 0, tonumber(known[3]) or 0, false, 'delayed')
end
return 1
