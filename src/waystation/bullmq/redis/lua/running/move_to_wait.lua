--- Put the job that a worker holds back at the head of its queue; the attempt does not count.
--- The reply is how long the rate limit still binds, in milliseconds, or why the job stays.
--- keys  wait active prioritized marker meta events stalled limiter paused absent
--- args  base id token -> int
--- as    queue base
--- uses  take_back mark_ready waiting_list events_cap
--- lazy  return_grouped
local code = take_back(queue, id, token)
if code ~= 0 then return code end
local place = redis.call('HMGET', base .. id, 'priority', 'gid')
local priority = tonumber(place[1]) or 0
if place[2] then
  lazy().return_grouped(queue, id, place[2])
elseif priority > 0 then
  redis.call('ZADD', prioritized, priority * 4294967296, id)
else
  redis.call('RPUSH', waiting_list(queue), id)
end
mark_ready(queue)
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'waiting', 'jobId', id,
  'prev', 'active')
return math.max(redis.call('PTTL', limiter), 0)
