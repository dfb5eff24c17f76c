--- Count finished jobs by the minute, as dashboards read it.
local function record_metrics(metrics, many, now, size)
  local total = redis.pcall('HINCRBY', metrics, 'count', many)
  if type(total) == 'table' then
    -- Whoever writes there may write anything, and jobs must go on.
    redis.call('HSET', metrics, 'count', many)
    total = many
  end
  local last = redis.call('HMGET', metrics, 'prevTS', 'prevCount')
  if not tonumber(last[1]) or not tonumber(last[2]) then
    redis.call('HSET', metrics, 'prevTS', now, 'prevCount', total - many)
    return
  end
  local minutes = math.min(math.floor(now / 60000) - math.floor(last[1] / 60000), size)
  if minutes < 1 then return end
  local points = { total - many - last[2] }
  for minute = 2, minutes do points[minute] = 0 end
  -- The oldest first, so that the newest ends up at the left.
  for first = 1, #points, 1000 do
    redis.call('LPUSH', metrics .. ':data', unpack(points, first, math.min(first + 999, #points)))
  end
  redis.call('LTRIM', metrics .. ':data', 0, size - 1)
  redis.call('HSET', metrics, 'prevTS', now, 'prevCount', total - many)
end
