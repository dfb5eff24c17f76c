--- Add to one of the hour's numbers; the hash forgets itself a day after it began.
local function count(stats, field, by)
  if by == 0 then return end
  if redis.call('HINCRBY', stats, field, by) == by and redis.call('TTL', stats) < 0 then
    redis.call('EXPIRE', stats, 86400)
  end
end
