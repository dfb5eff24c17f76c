--- Let a job wait for its next try: its new text goes into the queue, or waits there to be due.
--- uses  tell rouse
local function try_again(place, now, worker, at)
  local id, attempt = ARGV[at], ARGV[at + 2]
  local lane = place.lanes + 2 * (ARGV[at + 1] - 1)
  local payload, delay, reason = ARGV[at + 3], tonumber(ARGV[at + 4]), ARGV[at + 5]
  local queue = KEYS[lane]
  tell(place.events, now, queue, 'retry', id, attempt, worker, 'delay', delay, 'reason', reason)
  if delay > 0 then
    redis.call('ZADD', KEYS[lane + 1], string.format('%.0f', now + delay), payload)
    return
  end
  redis.call('LPUSH', queue, payload)
  tell(place.events, now, queue, 'waiting', id, attempt + 1, '')
  rouse(place.wake)
end
