--- How many of a lane come before somebody who stands in it.
-- A rank is found in one walk down the set, a count up to a score in three.
local function lane_ahead(positions, upper, lane, id, score, lengths)
  if lane > 0 then return redis.call('ZRANK', upper[lane], id) end
  local ahead = redis.call('ZRANK', positions, id)
  for other = 1, 3 do
    if not lengths or lengths[other] > 0 then
      ahead = ahead - redis.call('ZCOUNT', upper[other], '-inf', '(' .. score)
    end
  end
  return ahead
end
