--- How many of a lane come before a score.
local function lane_ahead(positions, upper, lane, score, lengths)
  local before = '(' .. score
  if lane > 0 then return redis.call('ZCOUNT', upper[lane], '-inf', before) end
  local ahead = redis.call('ZCOUNT', positions, '-inf', before)
  for other = 1, 3 do
    if not lengths or lengths[other] > 0 then
      ahead = ahead - redis.call('ZCOUNT', upper[other], '-inf', before)
    end
  end
  return ahead
end
