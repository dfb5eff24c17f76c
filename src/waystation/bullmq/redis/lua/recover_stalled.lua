--- Put back jobs whose locks have lapsed since the last look, and suspect those active now.
--- keys  stalled wait paused active stalled_check meta events marker
--- args  base now interval_ms max_stalled
--- uses  now_ms makes_room events_cap mark_ready count_up waiting_list
if redis.call('EXISTS', stalled_check) == 1 then return {} end
now = now_ms(now)
makes_room('SREM', stalled)
redis.call('SET', stalled_check, string.format('%.0f', now), 'PX', interval_ms)
redis.call('XTRIM', events, 'MAXLEN', '~', events_cap(meta))

local lapsed = {}
for _, id in ipairs(redis.call('SMEMBERS', stalled)) do
  if redis.call('EXISTS', base .. id .. ':lock') == 0 then
    lapsed[id] = true
  end
end

local held = redis.call('LRANGE', active, 0, -1)
local recovered, kept = {}, {}
for _, id in ipairs(held) do
  if not lapsed[id] then
    kept[#kept + 1] = id
  elseif (tonumber(redis.pcall('HLEN', base .. id)) or 0) > 0 then
    recovered[#recovered + 1] = id
  end
  -- An id whose job is gone, or is no job, is neither kept nor recovered: it leaves the active list here.
end

if #kept < #held then
  -- Written anew, because taking ids out one by one would look through the list for each.
  redis.call('DEL', active)
  for first = 1, #kept, 1000 do
    redis.call('RPUSH', active, unpack(kept, first, math.min(first + 999, #kept)))
  end
end
local list = waiting_list({ meta = meta, wait = wait, paused = paused })
for _, id in ipairs(recovered) do
  local job = base .. id
  local stalls = count_up(job, 'stc')
  local scheduler = redis.call('HGET', job, 'rjk')
  local is_scheduled = scheduler and redis.call('EXISTS', base .. 'repeat:' .. scheduler) == 1
  if stalls > tonumber(max_stalled) and not is_scheduled then
    redis.call('HSET', job, 'defa', 'job stalled more than allowable limit')
  end
  redis.call('RPUSH', list, id)
  redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
  redis.call('XADD', events, '*', 'event', 'stalled', 'jobId', id)
end
if #recovered > 0 then mark_ready({ meta = meta, active = active, marker = marker }) end

redis.call('DEL', stalled)
for first = 1, #kept, 1000 do
  redis.call('SADD', stalled, unpack(kept, first, math.min(first + 999, #kept)))
end
return recovered
