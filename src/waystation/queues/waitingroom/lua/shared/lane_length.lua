--- How many stand in a lane; the normal lane is whoever stands in no other.
local function lane_length(positions, upper, lane)
  if lane > 0 then return redis.call('ZCARD', upper[lane]) end
  local length = redis.call('ZCARD', positions)
  for other = 1, 3 do length = length - redis.call('ZCARD', upper[other]) end
  return length
end
