--- Choose the seed of the next draw and publish its commitment, in one step; the commitment of the seed
--- that counts. One that was chosen stays until its draw has been held, and so does a witness.
--- keys  meta lottery drawn prequeue events
--- args  queue seed commitment witness version:str|int now:str|int -> texts
--- uses  instant_us format_int
local kept = redis.call('HMGET', meta, 'version', 'created_at', 'phase', 'events_cap')
if not kept[2] then
  return redis.error_reply('NOT_FOUND there is no room ' .. queue .. '; it may have been deleted')
end
if version ~= '' and version ~= (kept[1] or '0') then
  return redis.error_reply('WRONG_STATE the room is at version ' .. (kept[1] or '0') .. ', not ' .. version)
end
if kept[3] == 'drawing' or redis.call('ZCARD', prequeue) > 0 then
  return redis.error_reply('WRONG_STATE a seed must be committed to before anybody has joined')
end
-- What a draw was held with is public, and decides no other.
if redis.call('HEXISTS', lottery, 'digest') == 1 then redis.call('DEL', lottery, drawn) end
if witness ~= '' then redis.call('HSETNX', lottery, 'witness', witness) end
if redis.call('HSETNX', lottery, 'commitment', commitment) == 1 then
  redis.call('HSET', lottery, 'seed', seed)
end
local counts = redis.call('HGET', lottery, 'commitment')
local us = instant_us(now)
redis.call('HSET', meta, 'commitment', counts, 'updated_at', format_int(us / 1000000),
  'version', (kept[1] or 0) + 1)
redis.call('XADD', events, 'MAXLEN', '~', kept[4] or 10000, '*', 'v', 1, 'line', 'waitingroom',
  'queue', queue, 'event', 'changed', 'at', format_int(us / 1000), 'changed', 'commitment=' .. counts)
return { counts }
