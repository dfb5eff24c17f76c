--- The keys of a queue by what they start with, each built when first asked for.
local function queue_at(base)
  return setmetatable({ base = base }, {
    __index = function(queue, name)
      local key = base .. name
      queue[name] = key
      return key
    end,
  })
end

--- A whole number out of what another client may have written; nothing when it is none.
local function whole(text)
  local number = tonumber(text)
  -- Not a number is not even itself.
  if not number or number ~= number or math.abs(number) > 2 ^ 53 then return nil end
  return math.floor(number)
end

--- A limit out of the queue's meta; nothing when it is no number that could be one.
--- uses  whole
local function limit_of(text)
  local most = whole(text)
  return most and most > 0 and most or nil
end

--- How many events the queue keeps; the first to ask writes the default down.
local function events_cap(meta)
  local cap = redis.call('HGET', meta, 'opts.maxLenEvents')
  -- Another client may have written anything there, and jobs must go on.
  if cap and #cap < 10 and string.match(cap, '^%d+$') then return cap end
  if cap then return 10000 end
  redis.call('HSET', meta, 'opts.maxLenEvents', 10000)
  return 10000
end

--- Count finished jobs by the minute, as dashboards read it.
--- uses  whole
local function record_metrics(metrics, many, now, size)
  local total = redis.pcall('HINCRBY', metrics, 'count', many)
  if type(total) == 'table' then
    -- Another client may have written anything there, and jobs must go on.
    redis.call('HSET', metrics, 'count', many)
    total = many
  end
  local last = redis.call('HMGET', metrics, 'prevTS', 'prevCount')
  last = { whole(last[1]) or false, whole(last[2]) or false }
  if not last[1] or not last[2] then
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
