--- Close the pre-queue for the draw; how many take part in it, the same however often it is asked.
--- keys  meta state prequeue lottery
--- args  beacon now
--- uses  instant_us format_int
local phase = redis.call('HGET', meta, 'phase')
if phase == 'drawing' then
  local kept = redis.call('HMGET', lottery, 'seed', 'beacon', 'count', 'opened_us')
  return { kept[1] or '', kept[2], kept[3], kept[4] }
end
if phase ~= 'prequeue' then
  return redis.error_reply('WRONG_STATE a draw needs a pre-queue, the room is ' .. tostring(phase or 'open'))
end
-- Nobody who joins from here on may come before those who were here.
local us = math.max(instant_us(now), (tonumber(redis.call('HGET', state, 'last_us')) or 0) + 1)
redis.call('HSET', state, 'last_us', format_int(us))
redis.call('HSET', meta, 'phase', 'drawing')
local people = redis.call('ZCARD', prequeue)
redis.call('HSET', lottery, 'beacon', beacon, 'count', people, 'opened_us', format_int(us))
return { redis.call('HGET', lottery, 'seed') or '', beacon, format_int(people), format_int(us) }
