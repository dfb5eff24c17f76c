--- How many events the queue keeps; the first to ask writes the default down.
local function events_cap(meta)
  local cap = redis.call('HGET', meta, 'opts.maxLenEvents')
  -- Whoever writes there may write anything, and jobs must go on.
  if cap and #cap < 10 and string.match(cap, '^%d+$') then return cap end
  if cap then return 10000 end
  redis.call('HSET', meta, 'opts.maxLenEvents', 10000)
  return 10000
end
