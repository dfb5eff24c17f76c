--- Set a job aside with the reason.
--- uses  tell
local function bury(scene, now, worker, at)
  local id, attempt = ARGV[at], ARGV[at + 2]
  local queue = KEYS[scene.lanes + 2 * (ARGV[at + 1] - 1)]
  local payload, reason, why = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  redis.call('LPUSH', scene.dead_letter, payload)
  redis.call('HSET', scene.dead_letter_meta, id, cjson.encode({
    reason = reason, error = why, worker = worker, queue = queue, attempt = tonumber(attempt),
    at = now,
  }))
  tell(scene, queue, 'dead', id, attempt, worker, 'reason', reason)
end
