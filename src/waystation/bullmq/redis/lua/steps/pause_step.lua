--- Let a job that a worker holds wait until it is due or signalled; it holds no worker meanwhile.
--- The reply is 0 when it waits now, 1 and the signal that it takes, 2 when the wait is over; or an
--- error code. A wait without an end is looked at again after `wait_ms`. The job comes back at its
--- deadline at the latest, to fail then.
--- `wait` is the name of the wait among those of its kind, and `signal` what it waits for, or ''.
--- keys  active delayed marker meta events stalled absent
--- args  base now:str|int= id token wait signal due_ms:str|int wait_ms:int endless:int
--- args  deadline_ms:str|int -> stepped
--- as    queue base
--- uses  instant_ms must_hold take_back push_delayed mark_delayed events_cap renew_signals
local job, field = base .. id, (signal == '' and 'wait:' or 'take:') .. wait
if must_hold('HLEN', job) == 0 then return { -1 } end
local held = must_hold('GET', job .. ':lock')
local known = redis.call('HMGET', job, field, 'signals:' .. signal, 'taken:' .. signal, 'steps', 'stc',
  'signal:' .. signal, 'wait:' .. wait)
local mark, sent, taken = known[1], tonumber(known[2]) or 0, tonumber(known[3]) or 0
if held ~= token then
  -- The reply to an earlier call may have been lost, and the job waits.
  if mark and string.sub(mark, -#token - 1) == ' ' .. token then return { 0 } end
  return { held and -6 or -2 }
end
now = instant_ms(now)
if known[6] and signal ~= '' then renew_signals(job, signal) end
if not mark and known[7] and signal ~= '' and signal ~= 'sleep' then
  -- As an earlier version kept it, where each wait took the signal of its own number.
  mark = known[7]
  local number = tonumber(string.match(wait, '#(%d+)$')) or 1
  if mark ~= 'over' and number <= sent and number > taken then
    mark = '=' .. number
    redis.call('HSET', job, 'taken:' .. signal, number)
  end
  redis.call('HSET', job, field, mark)
end
if mark == 'over' then return { 2 } end
local number = mark and string.match(mark, '^=(%d+)$')
if not number and signal ~= '' and sent > taken then
  -- The first that nobody took, whichever wait it was sent for.
  number = string.format('%.0f', taken + 1)
  redis.call('HSET', job, field, '=' .. number, 'taken:' .. signal, number)
end
if number then return { 1, redis.call('HGET', job, 'signal:' .. signal .. '#' .. number) } end
local due = tonumber(mark and string.match(mark, '^%d+')) or tonumber(due_ms) or now + wait_ms
if endless == '1' and due <= now then due = now + wait_ms end
-- A job that sleeps runs again when it has slept, or when somebody woke it.
if due <= now or mark and signal == '' then
  redis.call('HSET', job, field, 'over')
  return { 2 }
end
-- What is later has no place in the order of delayed jobs.
due = math.min(due, 2199023255551)
local parked = math.max(math.min(due, tonumber(deadline_ms) or due), now + 1)
local code = take_back(queue, id, token, held)
if code ~= 0 then return { code } end
redis.call('HSET', job, field, string.format('%.0f', due) .. ' ' .. token,
  'waits', string.format('%.0f', parked) .. ' ' .. signal,
  'delay', string.format('%.0f', parked - now), 'steps', tonumber(known[4]) or 0)
if known[5] then redis.call('HSET', job, 'stc', 0) end
push_delayed(queue, id, parked)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'delayed', 'jobId', id,
  'delay', string.format('%.0f', parked))
mark_delayed(queue)
return { 0 }
