--- The number of the lane that somebody stands in, given the sets of the three upper lanes.
local function lane_of(upper, id, lengths)
  for lane = 3, 1, -1 do
    local empty = lengths and lengths[lane] == 0
    if not empty and redis.call('ZSCORE', upper[lane], id) then return lane end
  end
  return 0
end

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

--- How many stand in each lane; the normal lane is whoever stands in no other.
local function lane_lengths(positions, upper)
  local lengths = { [0] = redis.call('ZCARD', positions) }
  for lane = 1, 3 do
    lengths[lane] = redis.call('ZCARD', upper[lane])
    lengths[0] = lengths[0] - lengths[lane]
  end
  return lengths
end

--- Where in the line the next of the normal lane stands, from a rank on; nothing if nobody does.
-- Counted and halved, not walked: any number of people of other lanes may stand in between.
local function next_of_normal(positions, upper, from)
  local least, most = from, redis.call('ZCARD', positions) - 1
  local function elsewhere_up_to(rank)
    local score, people = redis.call('ZRANGE', positions, rank, rank, 'WITHSCORES')[2], 0
    for other = 1, 3 do people = people + redis.call('ZCOUNT', upper[other], '-inf', score) end
    return people
  end
  local before = from > 0 and elsewhere_up_to(from - 1) or 0
  if most < least or elsewhere_up_to(most) - before > most - from then return nil end
  while least < most do
    local middle = math.floor((least + most) / 2)
    if elsewhere_up_to(middle) - before > middle - from then least = middle + 1 else most = middle end
  end
  return least
end

--- The first so many of a lane, straight from the sorted sets; bounded by how far it looks.
--- uses  next_of_normal
-- Of a lane with people it finds one at least.
local function first_of_lane(positions, upper, lane, wanted)
  if lane > 0 then return redis.call('ZRANGE', upper[lane], 0, wanted - 1) end
  local found, looked, size = {}, 0, math.min(1000, wanted + 50)
  local from = next_of_normal(positions, upper, 0)
  while from and #found < wanted and looked < 20000 do
    local page = redis.call('ZRANGE', positions, from, from + size - 1)
    local elsewhere = {}
    for other = 1, 3 do elsewhere[other] = redis.call('ZMSCORE', upper[other], unpack(page)) end
    for at, id in ipairs(page) do
      local normal = not (elsewhere[1][at] or elsewhere[2][at] or elsewhere[3][at])
      if normal and #found < wanted then found[#found + 1] = id end
    end
    looked = looked + #page
    from = #found < wanted and next_of_normal(positions, upper, from + #page)
  end
  return found
end

--- Take the first so many who still wait off a lane's list.
--- uses  lane_ahead first_of_lane
-- The list is quick but may hold ghosts, or lack people: who left and came back, or stood here before
-- a draw. The sorted sets are the truth. If those taken are not the first of the lane, the sets say
-- who is, and whoever was taken too early goes back to the front of the list.
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
  local first, people = first_of_lane(positions, upper, lane, wanted), {}
  local scores = #first > 0 and redis.call('ZMSCORE', positions, unpack(first))
  for at, id in ipairs(first) do
    people[at] = { id, scores[at] }
    seen[id] = nil
  end
  for at = #found, 1, -1 do
    if seen[found[at][1]] then redis.call('LPUSH', list, found[at][1]) end
  end
  return people
end

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
