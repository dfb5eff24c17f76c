--- Lock the next jobs that a worker may have, in the order of their turns over all signatures it
--- serves, as far as limits allow.
--- uses  queue_of room_for limit_for left_in stands_in_line
local function choose(line, serves, want, worker, lease_ms)
  local heads = redis.call('ZINTER', 2, line.heads, serves, 'WEIGHTS', 1, 0, 'WITHSCORES')
  local ready, rooms, chosen, limited_ms = {}, {}, {}, 0
  for at = 1, #heads, 2 do
    ready[#ready + 1] = { signature = heads[at], turn = tonumber(heads[at + 1]), read = 0, left = {} }
  end

  local function get_to_know(first)
    first.queue = queue_of(first.signature)
    rooms[first.queue] = rooms[first.queue] or room_for(line, first.queue)
    first.room = rooms[first.queue]
    first.limit = limit_for(first.room, first.signature)
  end

  local function has_room(first)
    local left, pause_ms = left_in(line, first.queue, first.room, first.limit)
    if pause_ms > 0 and (limited_ms == 0 or pause_ms < limited_ms) then limited_ms = pause_ms end
    return left > 0
  end

  local function take(first, id)
    local limit, room = first.limit or {}, first.room
    if limit.most then room.running = room.running + 1 end
    if limit.a_minute then room.started = room.started + 1 end
    chosen[#chosen + 1] = {
      id = id, turn = first.left[first.at + 1], signature = first.signature, queue = first.queue,
      counted = limit.most ~= nil, metered = limit.a_minute ~= nil,
    }
  end

  local function refill(first)
    local count = #ready == 1 and want - #chosen or math.min(want - #chosen, 16)
    local found = redis.call('ZRANGE', line.ids .. first.signature, first.read,
      first.read + count - 1, 'WITHSCORES')
    first.read, first.left, first.at = first.read + #found / 2, found, 1
    return #found > 0
  end

  local function to_its_place(first)
    local at = 1
    while ready[at + 1] and ready[at + 1].turn < first.turn do
      ready[at], at = ready[at + 1], at + 1
    end
    ready[at] = first
  end

  -- So many locked elsewhere may stand in front before this look ends.
  local patience = 1000
  while #chosen < want and ready[1] and patience > 0 do
    local first = ready[1]
    if not first.queue then get_to_know(first) end
    local there = has_room(first) and (first.left[first.at or 1] or refill(first))
    if not there then
      table.remove(ready, 1)
    else
      local id = first.left[first.at]
      if redis.call('SET', line.lock .. id, worker, 'PX', lease_ms, 'NX') then
        take(first, id)
      elseif not stands_in_line(line, id, first.signature) then
        -- Locked elsewhere and out of the list: somebody has claimed it with plain commands. If it
        -- is locked and still in line, it stays there until the lock is released or runs out.
        first.read = first.read - 1
      else
        patience = patience - 1
      end
      first.at = first.at + 2
      if ready[2] and #chosen < want then
        if first.left[first.at] or refill(first) then
          first.turn = tonumber(first.left[first.at + 1])
          to_its_place(first)
        else
          table.remove(ready, 1)
        end
      end
    end
  end
  return chosen, limited_ms
end
