--- Make a job fail that has not ended, whether it waits or runs: 1, 0 when it has ended or is gone,
--- -8 when it keeps its scheduler going.
--- A worker that holds the job has lost its lock then, and learns so when it renews it. A job that has
--- done steps, or has something to undo, runs once more, for them to be undone, and fails then.
--- keys  wait paused active prioritized delayed completed failed waiting_children meta events marker pc
--- keys  stalled absent
--- args  base now:str|int= id reason keep -> int
--- as    queue base
--- uses  instant_ms must_hold check_queue check_ties is_current_iteration drop_from_states file_finished
--- uses  mark_ready events_cap enqueue_job set_cause
queue['waiting-children'] = waiting_children
local job = base .. id
if must_hold('HLEN', job) == 0 then return 0 end
must_hold('STRLEN', job .. ':lock')
if redis.call('ZSCORE', completed, id) or redis.call('ZSCORE', failed, id) then return 0 end
if is_current_iteration(queue, id) then return -8 end
local ties = redis.call('HMGET', job, 'parentKey', 'parent', 'deid')
local seen = {}
check_queue(base, seen)
check_ties(queue, ties[1], ties[2], ties[3], seen)
now = instant_ms(now)
local known = redis.call('HMGET', job, 'steps', 'failing', 'priority', 'given')
local undoes = known[1] or known[4]
if undoes and known[2] then return 0 end
-- By then a worker that holds it has noticed.
local left = math.max(redis.call('PTTL', job .. ':lock'), 0)

local prev = drop_from_states(queue, id)
redis.call('DEL', job .. ':lock')
redis.call('SREM', stalled, id)
if undoes then
  redis.call('HSET', job, 'failing', reason, 'cause', 'CANCELLED', 'delay', left)
  if prev == 'active' then redis.call('HSET', job, 'cut', 1) end
  enqueue_job(queue, id, now, left, tonumber(known[3]) or 0, true, prev == 'wait' and 'waiting' or prev)
  return 1
end
redis.call('HDEL', job, 'defa')
set_cause(job, 'CANCELLED', now)
local made = file_finished(queue, id, 'failed', reason, keep, now, true)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'failed', 'jobId', id,
  'failedReason', reason, 'prev', prev == 'wait' and 'waiting' or prev, 'attemptsMade', made)
-- One that ran may have kept others from running, by the concurrency of the queue.
if prev == 'active' then mark_ready(queue) end
return 1
