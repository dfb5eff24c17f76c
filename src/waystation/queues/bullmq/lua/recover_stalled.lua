--- Put back the jobs whose locks have lapsed since the last look, and suspect those active now.
--- keys  stalled wait active stalled_check meta events marker paused
--- args  base now interval_ms max_stalled
--- uses  now_ms events_cap mark_ready
if redis.call('EXISTS', stalled_check) == 1 then return {} end
now = now_ms(now)
redis.call('SET', stalled_check, string.format('%.0f', now), 'PX', interval_ms)
redis.call('XTRIM', events, 'MAXLEN', '~', events_cap(meta))

local queue = { meta = meta, active = active, marker = marker }
local recovered = {}
for _, id in ipairs(redis.call('SMEMBERS', stalled)) do
  local job = base .. id
  if redis.call('EXISTS', job .. ':lock') == 0 and redis.call('LREM', active, 1, id) > 0 then
    -- An id whose job is gone leaves the active list here and goes nowhere.
    if redis.call('EXISTS', job) == 1 then
      local stalls = redis.call('HINCRBY', job, 'stc', 1)
      local scheduler = redis.call('HGET', job, 'rjk')
      local is_scheduled = scheduler and redis.call('EXISTS', base .. 'repeat:' .. scheduler) == 1
      if stalls > tonumber(max_stalled) and not is_scheduled then
        redis.call('HSET', job, 'defa', 'job stalled more than allowable limit')
      end
      redis.call('RPUSH', wait, id)
      redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
      redis.call('XADD', events, '*', 'event', 'stalled', 'jobId', id)
      recovered[#recovered + 1] = id
    end
  end
end
if #recovered > 0 then mark_ready(queue) end

redis.call('DEL', stalled)
local held = redis.call('LRANGE', active, 0, -1)
for first = 1, #held, 1000 do
  redis.call('SADD', stalled, unpack(held, first, math.min(first + 999, #held)))
end
return recovered
