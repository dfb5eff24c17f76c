--- How many stand in each lane; the normal lane is whoever stands in no other.
local function lane_lengths(positions, upper)
  local lengths = { [0] = redis.call('ZCARD', positions) }
  for lane = 1, 3 do
    lengths[lane] = redis.call('ZCARD', upper[lane])
    lengths[0] = lengths[0] - lengths[lane]
  end
  return lengths
end
