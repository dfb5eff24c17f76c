--- Set a job aside with the reason.
--- uses  tell
local function bury(place, now, worker, at)
  local id, attempt = ARGV[at], ARGV[at + 2]
  local queue = KEYS[place.lanes + 2 * (ARGV[at + 1] - 1)]
  local payload, reason, why = ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  redis.call('LPUSH', place.dead_letter, payload)
  redis.call('HSET', place.dead_letter_meta, id, cjson.encode({
    reason = reason, error = why, worker = worker, queue = queue, attempt = tonumber(attempt),
    at = now,
  }))
  tell(place.events, now, queue, 'dead', id, attempt, worker, 'reason', reason)
end
