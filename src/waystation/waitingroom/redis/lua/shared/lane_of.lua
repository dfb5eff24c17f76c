--- The number of the lane that somebody stands in, given the sets of the three upper lanes.
local function lane_of(upper, id, lengths)
  for lane = 3, 1, -1 do
    local empty = lengths and lengths[lane] == 0
    if not empty and redis.call('ZSCORE', upper[lane], id) then return lane end
  end
  return 0
end
