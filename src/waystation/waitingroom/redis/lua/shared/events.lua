--- Put what happened into the stream, in the envelope that all lines share.
--- uses  format_int
local function emit_event(room, event, id, ...)
  redis.call('XADD', room.events, 'MAXLEN', '~', room.cap or 10000, '*', 'v', 1,
    'line', 'waitingroom', 'queue', room.queue, 'event', event, 'at', format_int(room.now / 1000),
    'subject', id, ...)
end

--- Add to one of the hour's numbers; the hash forgets itself a day after it began.
local function count(stats, field, by)
  if by == 0 then return end
  if redis.call('HINCRBY', stats, field, by) == by and redis.call('TTL', stats) < 0 then
    redis.call('EXPIRE', stats, 86400)
  end
end

--- Add waits, in seconds, to the hour's sum, mean and buckets.
--- uses  count
local function record_waits(stats, waits)
  if #waits == 0 then return end
  local sum, buckets = 0, {}
  for _, wait in ipairs(waits) do
    sum = sum + math.floor(wait)
    -- Two buckets for each doubling: percentiles are known to a fifth, whatever their size.
    local place = wait < 1 and 0 or math.floor(2 * math.log(wait) / math.log(2)) + 1
    buckets[place] = (buckets[place] or 0) + 1
  end
  count(stats, 'wait_n', #waits)
  count(stats, 'wait_sum', sum)
  for place, people in pairs(buckets) do
    count(stats, string.format('wait_le_%.0f', math.ceil(2 ^ (place / 2))), people)
  end
  local kept = redis.call('HMGET', stats, 'wait_sum', 'wait_n')
  redis.call('HSET', stats, 'avg_wait_time',
    string.format('%.0f', (tonumber(kept[1]) or 0) / tonumber(kept[2])))
end
