--- How things stand for somebody: a word, then the numbers that belong to it.
--- uses  whole lane_of lane_ahead lane_lengths
-- Where somebody is found is the truth; what their hash says is only for readers of the hash.
local function standing(room, id)
  -- Nobody is in two places, and nearly everybody who asks waits: the line is looked into first.
  local score = redis.call('ZSCORE', room.positions, id)
  if score and room.phase ~= 'drawing' then
    -- Counted once for all who are asked about in one call; empty lanes need no looking into.
    room.lengths = room.lengths or lane_lengths(room.positions, room.upper)
    local lengths = room.lengths
    local lane = lane_of(room.upper, id, lengths)
    return { 'waiting', lane, whole(score),
      lane_ahead(room.positions, room.upper, lane, id, score, lengths), lengths[lane] }
  end
  local ends = redis.call('ZSCORE', room.sessions_expiry, id)
  if ends and tonumber(ends) > room.now then return { 'inside', whole(ends / 1000) } end
  local turn = redis.call('ZSCORE', room.admitted, id)
  if turn then
    if tonumber(turn) > room.now then return { 'called', whole(turn / 1000) } end
    -- It may be over, and too late to be taken back, before anybody has swept it away.
    local lost = turn + room.missed_s * 1000000
    return lost > room.now and { 'late', whole(lost / 1000) } or { 'gone' }
  end
  local returned = redis.call('ZRANK', room.recovered, id)
  if returned then return { 'returned', returned } end
  if score or redis.call('ZSCORE', room.prequeue, id) then
    local lane = score and lane_of(room.upper, id) or lane_of(room.early, id)
    return { 'prequeued', lane, room.starts or '',
      redis.call('ZCARD', room.prequeue) + redis.call('ZCARD', room.positions) }
  end
  local lost = redis.call('ZSCORE', room.missed, id)
  if lost and tonumber(lost) > room.now then return { 'late', whole(lost / 1000) } end
  return { 'gone' }
end
