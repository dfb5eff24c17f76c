--- Let the jobs of one state wait again that got there no later than `until_ms`, or now when that
--- is '', the oldest first and at most `most`; the reply is how many there were.
--- keys  wait active completed failed delayed marker meta events paused
--- args  base now state until_ms most
--- uses  now_ms mark_ready waiting_list return_to_parent events_cap
local queue = { wait = wait, active = active, marker = marker, meta = meta, paused = paused }
local key = ({ completed = completed, failed = failed, delayed = delayed })[state]
local value = ({ completed = 'returnvalue', failed = 'failedReason' })[state]
if until_ms == '' then until_ms = now_ms(now) end
local found = redis.call('ZRANGEBYSCORE', key, '-inf', until_ms, 'LIMIT', 0, most)
if #found == 0 then return 0 end
redis.call('ZREM', key, unpack(found))
local ids = {}
for _, id in ipairs(found) do
  local job = base .. id
  -- An id whose job is gone leaves the set and goes nowhere.
  if redis.call('EXISTS', job) == 1 then
    ids[#ids + 1] = id
    if value then
      redis.call('HDEL', job, 'finishedOn', 'processedOn', value)
      return_to_parent(job, state)
    end
    redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', state)
  end
end
if #ids > 0 then redis.call('LPUSH', waiting_list(queue), unpack(ids)) end
redis.call('XTRIM', events, 'MAXLEN', '~', events_cap(meta))
mark_ready(queue)
return #found
