--- Close the pre-queue: seed, beacon, number of people, instant, and 1 when lots may be drawn; the
--- same however often it is asked. The secret of a witness, where there is one, is waited for `wait`
--- seconds.
--- keys  meta state prequeue lottery
--- args  beacon wait:int now:str|int -> texts
--- uses  instant_us format_int
local phase = redis.call('HGET', meta, 'phase')
if phase ~= 'prequeue' and phase ~= 'drawing' then
  return redis.error_reply('WRONG_STATE a draw needs a pre-queue, the room is ' .. tostring(phase or 'open'))
end
local us = instant_us(now)
if phase == 'prequeue' then
  -- The places that are drawn lie behind everybody who stood in line before, and before whoever
  -- joins from here on.
  local people = redis.call('ZCARD', prequeue)
  us = math.max(us, (tonumber(redis.call('HGET', state, 'last_us')) or 0) + 1)
  redis.call('HSET', state, 'last_us', format_int(us + people), 'placed', 0)
  redis.call('HSET', meta, 'phase', 'drawing')
  redis.call('HSET', lottery, 'beacon', beacon, 'count', people, 'opened_us', format_int(us))
end
local kept = redis.call('HMGET', lottery, 'seed', 'beacon', 'count', 'opened_us', 'witness',
  'revealed', 'forgone')
local ready = 1
if (kept[5] or '') ~= '' and not kept[6] and not kept[7] then
  -- A witness who stays away delays the draw and does not prevent it.
  ready = us >= tonumber(kept[4]) + tonumber(wait) * 1000000 and 1 or 0
  if ready == 1 then redis.call('HSET', lottery, 'forgone', 1) end
end
return { kept[1] or '', kept[2], kept[3], kept[4], ready }
