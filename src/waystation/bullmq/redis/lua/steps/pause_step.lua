--- Let a job that a worker holds wait until it is due or signalled; it holds no worker meanwhile.
--- The reply is 0 when it waits now, 1 and the signal that has come, 2 when the wait is over; or an
--- error code. A wait without an end is looked at again after `wait_ms`.
--- keys  active delayed marker meta events stalled absent
--- args  base now id token step signal due_ms wait_ms endless
--- uses  now_ms must_hold take_back push_delayed mark_delayed events_cap
local queue = { base = base, active = active, stalled = stalled, delayed = delayed, marker = marker }
local job, field = base .. id, 'wait:' .. step
if must_hold('HLEN', job) == 0 then return { -1 } end
local held = must_hold('GET', job .. ':lock')
local known = redis.call('HMGET', job, field, 'signal:' .. signal, 'steps', 'stc')
local mark = known[1]
if held ~= token then
  -- The reply to an earlier call may have been lost, and the job waits.
  if mark and string.sub(mark, -#token - 1) == ' ' .. token then return { 0 } end
  return { held and -6 or -2 }
end
now = now_ms(now)
if mark == 'over' then return { 2 } end
if signal ~= '' and known[2] then return { 1, known[2] } end
local due = tonumber(mark and string.match(mark, '^%d+')) or tonumber(due_ms) or now + wait_ms
if endless == '1' and due <= now then due = now + wait_ms end
-- A job that sleeps runs again when it has slept, or when somebody woke it.
if due <= now or mark and signal == '' then
  redis.call('HSET', job, field, 'over')
  return { 2 }
end
-- What is later has no place in the order of delayed jobs.
due = math.min(due, 2199023255551)
local code = take_back(queue, id, token, held)
if code ~= 0 then return { code } end
redis.call('HSET', job, field, string.format('%.0f', due) .. ' ' .. token, 'waits', 'signal:' .. signal,
  'delay', string.format('%.0f', due - now), 'steps', tonumber(known[3]) or 0)
if known[4] then redis.call('HSET', job, 'stc', 0) end
push_delayed(queue, id, due)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'delayed', 'jobId', id,
  'delay', string.format('%.0f', due))
mark_delayed(queue)
return { 0 }
