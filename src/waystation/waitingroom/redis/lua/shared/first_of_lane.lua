--- The first so many of a lane, straight from the sorted sets; bounded by how far it looks.
local function first_of_lane(positions, upper, lane, wanted)
  if lane > 0 then return redis.call('ZRANGE', upper[lane], 0, wanted - 1) end
  local found, from = {}, 0
  while #found < wanted and from < 20000 do
    local page = redis.call('ZRANGE', positions, from, from + 999)
    if #page == 0 then break end
    local elsewhere = {}
    for other = 1, 3 do elsewhere[other] = redis.call('ZMSCORE', upper[other], unpack(page)) end
    for at, id in ipairs(page) do
      local normal = not (elsewhere[1][at] or elsewhere[2][at] or elsewhere[3][at])
      if normal and #found < wanted then found[#found + 1] = id end
    end
    from = from + 1000
  end
  return found
end
