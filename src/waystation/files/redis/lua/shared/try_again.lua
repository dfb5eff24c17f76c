--- Let a job wait for its next try: its new text goes into the queue, or waits there to be due.
--- uses  tell rouse
local function try_again(scene, now, worker, at)
  local id, attempt = ARGV[at], ARGV[at + 2]
  local lane = scene.lanes + 2 * (ARGV[at + 1] - 1)
  local payload, delay, reason = ARGV[at + 3], tonumber(ARGV[at + 4]), ARGV[at + 5]
  local queue = KEYS[lane]
  tell(scene, queue, 'retry', id, attempt, worker, 'delay', delay, 'reason', reason)
  -- The same text may have been put in line twice; the second must not take the first one's scene.
  if delay > 0 and redis.call('ZADD', KEYS[lane + 1], 'NX', string.format('%.0f', now + delay),
    payload) == 1 then return end
  redis.call('LPUSH', queue, payload)
  tell(scene, queue, 'waiting', id, attempt + 1, '')
  rouse(scene.wake)
end
