--- How many events the queue keeps; the first to ask writes the default down.
local function events_cap(meta)
  local cap = redis.call('HGET', meta, 'opts.maxLenEvents')
  if cap then return cap end
  redis.call('HSET', meta, 'opts.maxLenEvents', 10000)
  return 10000
end
