--- Delay a delayed job anew, by milliseconds from now: 0, -1 when it is gone, -3 when it is not
--- delayed.
--- keys  delayed marker meta events absent
--- args  base now:str|int= id delay:int -> int
--- as    queue base
--- uses  instant_ms push_delayed mark_delayed events_cap
local job, due = base .. id, instant_ms(now) + tonumber(delay)
if redis.call('HLEN', job) == 0 then return -1 end
local score = redis.call('ZSCORE', delayed, id)
if not score then return -3 end
local parked, signal = string.match(redis.call('HGET', job, 'waits') or '', '^(%d+) (.*)$')
redis.call('ZREM', delayed, id)
push_delayed(queue, id, due)
redis.call('HSET', job, 'delay', delay)
-- One that waits for a signal goes on waiting, until then.
if parked and math.floor(score / 4096) == tonumber(parked) then
  redis.call('HSET', job, 'waits', string.format('%.0f ', due) .. signal)
end
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'delayed', 'jobId', id,
  'delay', string.format('%.0f', due))
mark_delayed(queue)
return 0
