--- Mix the secret of a witness into the draw; 0 when that has been done.
--- keys  meta lottery
--- args  secret digest -> bool
local kept = redis.call('HMGET', lottery, 'witness', 'revealed', 'forgone', 'entrants')
if (kept[1] or '') == '' then return redis.error_reply('WRONG_STATE the draw has no witness') end
if kept[1] ~= digest then
  return redis.error_reply('INVALID_INPUT the secret is not the one that the witness committed to')
end
if kept[2] then return 0 end
if kept[3] then
  return redis.error_reply('WRONG_STATE the draw was held without the secret, which came too late')
end
-- Whoever knew the secret while people could still join might choose who does.
if redis.call('HGET', meta, 'phase') ~= 'drawing' or not kept[4] then
  return redis.error_reply('WRONG_STATE keep the secret until the list of those who take part is published')
end
redis.call('HSET', lottery, 'beacon', secret, 'revealed', 1)
return 1
