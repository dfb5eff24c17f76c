--- Give turns: first to those who took one back, then lane by lane; the ids that were called.
--- uses  format_int emit_event count choose_lanes lane_lengths take_first take_any record_waits
--- uses  keep_promise
local function give_turns(room, set, line, turns, only)
  local called = {}
  if turns <= 0 then return called end
  local window = (tonumber(set[9]) or 120) * 1000000
  -- Unique and rising, so that the order of the calls is known for as long as anybody may return. It
  -- is kept apart from the ends of the windows: a shorter window ends before those of earlier calls.
  local at_us = math.max(room.now, (tonumber(redis.call('HGET', line.state, 'called_us')) or 0) + 1)

  local function call(id, score, lane)
    called[#called + 1] = id
    redis.call('ZADD', room.admitted, format_int(at_us + window), id)
    at_us = at_us + 1
    emit_event(room, 'admitted', id, 'lane', lane, 'seq', format_int(score),
      'waited', format_int(math.max(0, room.now - math.max(score, tonumber(set[15]) or 0)) / 1000))
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
  local promised = redis.call('HLEN', line.promises) > 0
  for each = 3, 0, -1 do
    if chosen[each] > 0 then
      local people = take(line.positions, line.upper, each, line.lists[each], chosen[each])
      local ids = {}
      for at, person in ipairs(people) do
        ids[at] = person[1]
        local score = tonumber(person[2])
        call(person[1], score, each)
        waits[#waits + 1] = math.max(0, room.now - math.max(score, tonumber(set[15]) or 0)) / 1000000
        if promised then keep_promise(line, person[1], waits[#waits]) end
      end
      for from = 1, #ids, 1000 do
        local page = { unpack(ids, from, math.min(from + 999, #ids)) }
        redis.call('ZREM', line.positions, unpack(page))
        redis.call('ZREM', line.heartbeat, unpack(page))
        if each > 0 then redis.call('ZREM', line.upper[each], unpack(page)) end
      end
    end
  end
  if #called == 0 then return called end
  redis.call('HSET', line.state, 'called_us', format_int(at_us - 1), 'c0', credits[0], 'c1', credits[1],
    'c2', credits[2], 'c3', credits[3])
  count(line.stats, 'total_admitted', #called)
  record_waits(line.stats, waits)
  return called
end

--- Take away turns that nobody took in time; they can be taken back for a while.
--- uses  format_int emit_event
local function sweep_turns(room, most)
  local ids = redis.call('ZRANGEBYSCORE', room.admitted, '-inf', format_int(room.now), 'WITHSCORES',
    'LIMIT', 0, most)
  for at = 1, #ids, 2 do
    local id = ids[at]
    redis.call('ZREM', room.admitted, id)
    if room.missed_s > 0 then
      redis.call('ZADD', room.missed, format_int(ids[at + 1] + room.missed_s * 1000000), id)
    end
    emit_event(room, 'missed', id)
  end
  return #ids / 2
end

--- How things stand for somebody: a word, then the numbers that belong to it.
--- uses  format_int lane_of lane_ahead lane_lengths
-- Where somebody is found is the truth; what their hash says is only for readers of the hash.
local function visitor_status(room, id)
  -- Nobody is in two places, and nearly everybody who asks waits: the line is looked into first.
  local score = redis.call('ZSCORE', room.positions, id)
  if score and room.phase ~= 'drawing' then
    -- Counted once for all who are asked about in one call; empty lanes need no looking into.
    room.lengths = room.lengths or lane_lengths(room.positions, room.upper)
    local lengths = room.lengths
    local lane = lane_of(room.upper, id, lengths)
    return { 'waiting', lane, format_int(score),
      lane_ahead(room.positions, room.upper, lane, id, score, lengths), lengths[lane] }
  end
  local ends = redis.call('ZSCORE', room.sessions_expiry, id)
  if ends and tonumber(ends) > room.now then return { 'inside', format_int(ends / 1000) } end
  local turn = redis.call('ZSCORE', room.admitted, id)
  if turn then
    if tonumber(turn) > room.now then return { 'called', format_int(turn / 1000) } end
    -- It may be over, and too late to be taken back, before anybody has swept it away.
    local lost = turn + room.missed_s * 1000000
    return lost > room.now and { 'late', format_int(lost / 1000) } or { 'gone' }
  end
  local returned = redis.call('ZRANK', room.recovered, id)
  if returned then return { 'returned', returned } end
  if score or redis.call('ZSCORE', room.prequeue, id) then
    local lane = score and lane_of(room.upper, id) or lane_of(room.early, id)
    return { 'prequeued', lane, room.starts or '', redis.call('ZCARD', room.prequeue),
      redis.call('ZRANK', room.prequeue, id) or redis.call('ZCARD', room.prequeue) }
  end
  local lost = redis.call('ZSCORE', room.missed, id)
  if lost and tonumber(lost) > room.now then return { 'late', format_int(lost / 1000) } end
  return { 'gone' }
end
