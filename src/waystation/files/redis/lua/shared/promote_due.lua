--- Put jobs whose pause is over back into their queue, a bounded number at a time.
--- uses  tell name_and_tries
local function promote_due(scene, lane, now, most)
  local queue, scheduled = KEYS[lane], KEYS[lane + 1]
  local due = redis.call('ZRANGEBYSCORE', scheduled, '-inf', string.format('%.0f', now),
    'LIMIT', 0, most)
  if #due == 0 then return 0 end
  redis.call('ZREM', scheduled, unpack(due))
  redis.call('LPUSH', queue, unpack(due))
  for _, raw in ipairs(due) do
    local id, try = name_and_tries(raw)
    tell(scene, queue, 'waiting', id, try, '')
  end
  return #due
end
