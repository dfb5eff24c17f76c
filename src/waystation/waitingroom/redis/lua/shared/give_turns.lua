--- Give turns: first to those who took one back, then lane by lane; the ids that were called.
--- uses  whole tell count choose_lanes lane_lengths take_first take_any record_waits
local function give_turns(room, set, line, turns, only)
  local called = {}
  if turns <= 0 then return called end
  local window_ends = room.now + (tonumber(set[9]) or 120) * 1000000
  -- Unique and rising, so that the order of the calls is known for as long as anybody may return.
  local over = math.max(window_ends, (tonumber(redis.call('HGET', line.state, 'over_us')) or 0) + 1)

  local function call(id, score, lane)
    called[#called + 1] = id
    redis.call('ZADD', room.admitted, whole(over), id)
    over = over + 1
    tell(room, 'admitted', id, 'lane', lane, 'seq', whole(score),
      'waited', whole(math.max(0, room.now - math.max(score, tonumber(set[15]) or 0)) / 1000))
  end

  local returning = redis.call('ZRANGE', line.recovered, 0, turns - 1, 'WITHSCORES')
  for at = 1, #returning, 2 do
    redis.call('ZREM', line.recovered, returning[at])
    redis.call('ZREM', line.heartbeat, returning[at])
    call(returning[at], room.now, 'returned')
  end

  local lengths, weights, credits = lane_lengths(line.positions, line.upper), {}, {}
  local kept = redis.call('HMGET', line.state, 'c0', 'c1', 'c2', 'c3')
  local lane = 0
  for weight in string.gmatch(set[5] or '1:2:4:8', '%d+') do
    weights[lane] = tonumber(weight)
    credits[lane] = tonumber(kept[lane + 1]) or 0
    if only ~= '' and tonumber(only) ~= lane then lengths[lane] = 0 end
    lane = lane + 1
  end
  local chosen = choose_lanes(lengths, weights, credits, turns - #called, set[6] == '1')
  local take = set[7] == 'random' and take_any or take_first
  local waits = {}
  for each = 3, 0, -1 do
    if chosen[each] > 0 then
      local people = take(line.positions, line.upper, each, line.lists[each], chosen[each])
      local ids = {}
      for at, person in ipairs(people) do
        ids[at] = person[1]
        local score = tonumber(person[2])
        call(person[1], score, each)
        waits[#waits + 1] = math.max(0, room.now - math.max(score, tonumber(set[15]) or 0)) / 1000000
      end
      for from = 1, #ids, 1000 do
        local page = { unpack(ids, from, math.min(from + 999, #ids)) }
        redis.call('ZREM', line.positions, unpack(page))
        redis.call('ZREM', line.heartbeat, unpack(page))
        if each > 0 then redis.call('ZREM', line.upper[each], unpack(page)) end
      end
    end
  end
  redis.call('HSET', line.state, 'over_us', whole(over), 'c0', credits[0], 'c1', credits[1],
    'c2', credits[2], 'c3', credits[3])
  count(line.stats, 'total_admitted', #called)
  record_waits(line.stats, waits)
  return called
end
