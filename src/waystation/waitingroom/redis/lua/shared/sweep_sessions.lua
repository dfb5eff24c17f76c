--- Free the seats of sessions that have ended.
--- uses  whole tell
local function sweep_sessions(room, most)
  local ids = redis.call('ZRANGEBYSCORE', room.sessions_expiry, '-inf', whole(room.now), 'LIMIT', 0, most)
  for _, id in ipairs(ids) do
    redis.call('ZREM', room.sessions_expiry, id)
    redis.call('SREM', room.sessions, id)
    tell(room, 'expired', id, 'reason', 'session')
  end
  return #ids
end
