--- The millisecond at which the next delayed job is due; 0 when none is delayed.
local function next_due(queue)
  local first = redis.call('ZRANGE', queue.delayed, 0, 0, 'WITHSCORES')
  return first[2] and math.floor(first[2] / 4096) or 0
end
