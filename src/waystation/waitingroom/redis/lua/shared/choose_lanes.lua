--- How many of the next turns each lane gets: smooth weighted round robin, or strictly by rank.
-- Every lane that waits gains its weight; the richest goes and pays for all. Credits are kept, so
-- that batches of one share out the turns as one large batch would.
local function choose_lanes(lengths, weights, credits, turns, strict)
  local chosen = { [0] = 0, 0, 0, 0 }
  if strict then
    for lane = 3, 0, -1 do
      chosen[lane] = math.min(lengths[lane], turns)
      turns = turns - chosen[lane]
    end
    return chosen
  end
  for _ = 1, turns do
    local sum, best = 0, nil
    for lane = 3, 0, -1 do
      if chosen[lane] < lengths[lane] then
        credits[lane] = credits[lane] + weights[lane]
        sum = sum + weights[lane]
        if not best or credits[lane] > credits[best] then best = lane end
      end
    end
    if not best then break end
    credits[best] = credits[best] - sum
    chosen[best] = chosen[best] + 1
  end
  return chosen
end
