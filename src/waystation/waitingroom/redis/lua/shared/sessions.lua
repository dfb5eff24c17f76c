--- Give somebody a seat; the session has the id of the place it grew out of.
--- uses  format_int
local function begin_session(room, id)
  local second = math.floor(room.now / 1000000)
  local length = tonumber(room.session_s) or 3600
  local ends = room.now + length * 1000000
  redis.call('SADD', room.sessions, id)
  redis.call('ZADD', room.sessions_expiry, format_int(ends), id)
  redis.call('HSET', room.session, 'queue_id', room.queue, 'position_id', id, 'status', 'active',
    'started_at', format_int(second), 'expires_at', format_int(second + length), 'last_activity', format_int(second),
    'page_views', 0)
  redis.call('EXPIRE', room.session, length)
  return ends
end

--- Free the seats of sessions that have ended.
--- uses  format_int emit_event
local function sweep_sessions(room, most)
  local ids = redis.call('ZRANGEBYSCORE', room.sessions_expiry, '-inf', format_int(room.now), 'LIMIT', 0, most)
  for _, id in ipairs(ids) do
    redis.call('ZREM', room.sessions_expiry, id)
    redis.call('SREM', room.sessions, id)
    emit_event(room, 'expired', id, 'reason', 'session')
  end
  return #ids
end
