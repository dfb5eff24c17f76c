--- Run a finished job again: 0, -1 when it is gone, -3 when it is not in that state.
--- keys  wait active prioritized completed failed marker meta events pc paused absent
--- args  base id state lifo:int forget... -> int
--- as    queue base
--- uses  forget_steps make_wait mark_ready check_parent return_to_parent events_cap
local job = base .. id
if redis.call('HLEN', job) == 0 then return -1 end
local parent = redis.call('HGET', job, 'parentKey')
if parent then check_parent(base, parent, {}) end
if redis.call('ZREM', state == 'completed' and completed or failed, id) == 0 then return -3 end
forget_steps(job, id, state)
redis.call('HDEL', job, 'finishedOn', 'processedOn',
  state == 'completed' and 'returnvalue' or 'failedReason', unpack(ARGV, forget))
local priority = tonumber(redis.call('HGET', job, 'priority') or 0) or 0
make_wait(queue, id, priority, lifo == '1')
mark_ready(queue)
return_to_parent(job, state, parent)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'waiting', 'jobId', id,
  'prev', state)
return 0
