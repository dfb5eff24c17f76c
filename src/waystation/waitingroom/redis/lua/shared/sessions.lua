--- Give somebody a seat; the session has the id of the place it grew out of.
--- uses  format_int
local function begin_session(room, id)
  local second = math.floor(room.now / 1000000)
  local length = tonumber(room.session_s) or 3600
  local ends = room.now + length * 1000000
  redis.call('SADD', room.sessions, id)
  redis.call('ZADD', room.sessions_expiry, format_int(ends), id)
  redis.call('ZADD', room.sessions_began, format_int(room.now), id)
  redis.call('HSET', room.session, 'queue_id', room.queue, 'position_id', id, 'status', 'active',
    'started_at', format_int(second), 'expires_at', format_int(second + length), 'last_activity', format_int(second),
    'page_views', 0)
  redis.call('EXPIRE', room.session, length)
  return ends
end

--- Free the seats of sessions that have ended.
--- uses  format_int emit_event learn_end
local function sweep_sessions(room, most)
  local found = redis.call('ZRANGEBYSCORE', room.sessions_expiry, '-inf', format_int(room.now), 'WITHSCORES',
    'LIMIT', 0, most)
  for at = 1, #found, 2 do
    local id = found[at]
    learn_end(room.stays, redis.call('ZSCORE', room.sessions_began, id), found[at + 1])
    redis.call('ZREM', room.sessions_began, id)
    redis.call('ZREM', room.sessions_expiry, id)
    redis.call('SREM', room.sessions, id)
    emit_event(room, 'expired', id, 'reason', 'session')
  end
  return #found / 2
end
