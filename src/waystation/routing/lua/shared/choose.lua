--- Lock the next jobs that a worker may have, in the order of their turns over all signatures it
--- serves, as far as limits allow.
--- uses  queue_of room_for limit_for left_in stands_in_line served_heads heap_push heap_pop
local function choose(line, serves, want, worker, lease_ms)
  local rooms, chosen, limited_ms = {}, {}, 0
  -- What is next is the head of a signature not looked at yet, or of one that has more.
  local next_head, more = served_heads(line, serves), {}
  local signature, turn = next_head()

  local function get_to_know()
    local queue = queue_of(signature)
    rooms[queue] = rooms[queue] or room_for(line, queue)
    local room = rooms[queue]
    local limit = limit_for(room, signature)
    return {
      signature = signature, queue = queue, room = room, limit = limit, turn = turn, read = 0,
      left = {}, at = 1,
    }
  end

  local function whose_turn()
    if not signature or (more[1] and more[1].turn < turn) then return heap_pop(more) end
    local first = get_to_know()
    signature, turn = next_head()
    return first
  end

  local function has_room(first)
    local left, pause_ms = left_in(line, first.queue, first.room, first.limit)
    if pause_ms > 0 and (limited_ms == 0 or pause_ms < limited_ms) then limited_ms = pause_ms end
    return left > 0
  end

  local function has_more(first)
    if first.left[first.at] then return true end
    local is_last = not signature and not more[1]
    local count = math.min(want - #chosen, is_last and want or math.max(2, 2 * first.read))
    first.left, first.at = redis.pcall('ZRANGE', line.ids .. first.signature, first.read,
      first.read + count - 1, 'WITHSCORES'), 1
    -- Something else lies where the signature is indexed: it is passed over, and the rest goes on.
    if first.left.err then first.left = {} end
    first.read = first.read + #first.left / 2
    return #first.left > 0
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

  -- So many locked elsewhere may stand in front before this look ends.
  local patience, first = 1000, whose_turn()
  while first and #chosen < want and patience > 0 do
    if not has_room(first) or not has_more(first) then
      first = whose_turn()
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
      if (signature or more[1]) and #chosen < want then
        if has_more(first) then
          first.turn = tonumber(first.left[first.at + 1])
          heap_push(more, first)
        end
        first = whose_turn()
      end
    end
  end
  return chosen, limited_ms
end
