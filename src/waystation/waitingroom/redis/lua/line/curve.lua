--- Points on the line, lane by lane: a score, and how many of the lane come before it.
--- keys  positions elevated vip premium
--- args  points:int -> Any
--- uses  lane_ahead lane_lengths format_int
-- Whoever knows the own score finds the own place between two points, without asking the store.
local upper = { elevated, vip, premium }
local most = tonumber(points)
local lengths = lane_lengths(positions, upper)
local curve = {}
for lane = 0, 3 do
  local set = lane > 0 and upper[lane] or positions
  local length = redis.call('ZCARD', set)
  local found, last = {}, -1
  if lengths[lane] > 0 then
    for point = 0, most - 1 do
      -- Close together at the front, where a place more or less is noticed.
      local rank = math.floor((length - 1) * (point / math.max(1, most - 1)) ^ 2)
      if rank > last then
        last = rank
        local at = redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')
        found[#found + 1] = format_int(at[2])
        found[#found + 1] = lane > 0 and rank or lane_ahead(positions, upper, 0, at[1], at[2])
      end
    end
  end
  curve[lane + 1] = found
end
return curve
