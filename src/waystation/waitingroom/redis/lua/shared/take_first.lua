--- Take the first so many who still wait off a lane's list.
--- uses  lane_ahead first_of_lane
-- The list is quick but may hold ghosts, or lack people when somebody has cut it; the sorted sets
-- are the truth. If those taken are not the first of the lane, the sets say who is.
local function take_first(positions, upper, lane, list, wanted)
  local found, seen, popped = {}, {}, 0
  while #found < wanted and popped < 5000 do
    local ids = redis.call('LPOP', list, math.min(wanted - #found, 1000))
    if not ids or #ids == 0 then break end
    popped = popped + #ids
    local scores = redis.call('ZMSCORE', positions, unpack(ids))
    for at, id in ipairs(ids) do
      if scores[at] and not seen[id] then
        seen[id] = true
        found[#found + 1] = { id, scores[at] }
      end
    end
  end
  local last = found[#found]
  local whole_lane = popped < 5000 and #found < wanted
  if (not last and not whole_lane)
    or (last and not whole_lane
      and lane_ahead(positions, upper, lane, last[1], last[2]) == #found - 1) then
    return found
  end
  local first = first_of_lane(positions, upper, lane, wanted)
  if #first == 0 then return {} end
  local scores = redis.call('ZMSCORE', positions, unpack(first))
  found = {}
  for at, id in ipairs(first) do found[at] = { id, scores[at] } end
  return found
end
