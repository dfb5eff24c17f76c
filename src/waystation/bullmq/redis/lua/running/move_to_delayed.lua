--- Delay the job that a worker holds until `due`; the attempt does not count. 0, or an error code.
--- keys  active delayed marker meta events stalled absent
--- args  base now:str|int= id token due:int -> int
--- as    queue base
--- uses  instant_ms take_back push_delayed mark_delayed events_cap
now, due = instant_ms(now), tonumber(due)
local code = take_back(queue, id, token)
if code ~= 0 then return code end
due = math.max(due, now)
redis.call('HSET', base .. id, 'delay', string.format('%.0f', due - now))
push_delayed(queue, id, due)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'delayed', 'jobId', id,
  'delay', string.format('%.0f', due))
mark_delayed(queue)
return 0
