--- Take away turns that nobody took in time; they can be taken back for a while.
--- uses  whole tell
local function sweep_turns(room, most)
  local ids = redis.call('ZRANGEBYSCORE', room.admitted, '-inf', whole(room.now), 'WITHSCORES',
    'LIMIT', 0, most)
  for at = 1, #ids, 2 do
    local id = ids[at]
    redis.call('ZREM', room.admitted, id)
    if room.missed_s > 0 then
      redis.call('ZADD', room.missed, whole(ids[at + 1] + room.missed_s * 1000000), id)
    end
    tell(room, 'missed', id)
  end
  return #ids / 2
end
