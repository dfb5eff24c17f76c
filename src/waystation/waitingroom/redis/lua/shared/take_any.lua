--- Take so many of a lane by chance, everybody with the same chance.
--- uses  take_first
local function take_any(positions, upper, lane, list, wanted)
  local found, seen = {}, {}
  local set = lane > 0 and upper[lane] or positions
  for _ = 1, 20 do
    local drawn = redis.call('ZRANDMEMBER', set, wanted - #found, 'WITHSCORES')
    for at = 1, #drawn, 2 do
      local id, elsewhere = drawn[at], false
      for other = 1, 3 do
        elsewhere = elsewhere or (lane == 0 and redis.call('ZSCORE', upper[other], id))
      end
      if not seen[id] and not elsewhere then
        seen[id] = true
        found[#found + 1] = { id, drawn[at + 1] }
      end
    end
    if #found >= wanted then return found end
  end
  -- Nearly everybody stands in another lane: chance would take too long.
  if #found == 0 then return take_first(positions, upper, lane, list, wanted) end
  return found
end
