--- Give somebody a seat; the session has the id of the place it grew out of.
--- uses  whole
local function begin_session(room, id)
  local second = math.floor(room.now / 1000000)
  local length = tonumber(room.session_s) or 3600
  local ends = room.now + length * 1000000
  redis.call('SADD', room.sessions, id)
  redis.call('ZADD', room.sessions_expiry, whole(ends), id)
  redis.call('HSET', room.session, 'queue_id', room.queue, 'position_id', id, 'status', 'active',
    'started_at', whole(second), 'expires_at', whole(second + length), 'last_activity', whole(second),
    'page_views', 0)
  redis.call('EXPIRE', room.session, length)
  return ends
end
