--- Hand the next fitting jobs to a worker: match first, write after.
--- uses  match_signatures choose unindex_jobs emit_event whole wake_for
--- lazy  remove_waiting dead_letter_unreadable raise_count
local function claim_jobs(line, now, profile, worker, want, token, lease_ms)
  local serves, unread = match_signatures(line, profile)
  -- Whoever asks again at once gets the first of all that fit, not of those compared so far.
  if unread and line.asks_again then return {}, 0, true end
  local ids, turns, origins, limited_ms = choose(line, serves, want, worker, lease_ms)
  if #ids == 0 then return {}, limited_ms, unread end

  local keys = {}
  for at, id in ipairs(ids) do keys[at] = line.data .. id end
  local data = redis.call('MGET', unpack(keys))
  local leading, in_front = redis.call('LRANGE', line.waiting, 0, #ids - 1), true
  for at, id in ipairs(ids) do in_front = in_front and leading[at] == id end
  if in_front then
    redis.call('LTRIM', line.waiting, #ids, -1)
    redis.call('ZREM', line.places, unpack(ids))
  end

  local claims, active, records, deadlines, states, void = {}, {}, {}, {}, {}, {}
  local signatures, counted, metered = {}, {}, {}
  local deadline = whole(now + lease_ms)
  local since_and_worker = ' ' .. whole(now) .. ' ' .. #worker .. ' ' .. worker .. ' '
  for at, id in ipairs(ids) do
    local origin, there = origins[at], in_front or lazy().remove_waiting(line, id)
    local queue, limit = origin.queue, origin.limit
    if #origin.gone == 0 then signatures[#signatures + 1] = origin end
    origin.gone[#origin.gone + 1] = id
    if there and data[at] then
      if limit and limit.most then counted[queue] = (counted[queue] or 0) + 1 end
      if limit and limit.a_minute then metered[queue] = (metered[queue] or 0) + 1 end
      claims[#claims + 1] = id
      claims[#claims + 1] = data[at]
      active[#active + 1] = id
      records[#records + 1] = id
      records[#records + 1] = token .. (limit and limit.most and ' 1 ' or ' 0 ') .. turns[at]
        .. since_and_worker .. queue
      deadlines[#deadlines + 1] = deadline
      deadlines[#deadlines + 1] = id
      states[#states + 1] = line.status .. id
      states[#states + 1] = 'active'
      emit_event(line, now, 'active', queue, id, 'worker', worker, 'prev', 'waiting')
    else
      -- Its data is gone, or another client has taken it out of the list without the index.
      void[#void + 1] = line.lock .. id
      if there then lazy().dead_letter_unreadable(line, now, id, 'gone', queue) end
    end
  end
  if #void > 0 then redis.call('DEL', unpack(void)) end
  if #active > 0 then
    redis.call('SADD', line.active, unpack(active))
    redis.call('HSET', line.claims, unpack(records))
    redis.call('ZADD', line.leases, unpack(deadlines))
    redis.call('MSET', unpack(states))
  end
  for _, origin in ipairs(signatures) do
    -- Whoever was woken for one of them may have found too little; there is more.
    if unindex_jobs(line, origin.signature, origin.gone) then
      wake_for(line, origin.queue, origin.signature)
    end
  end
  for queue, count in pairs(counted) do lazy().raise_count(line.concurrent .. queue, count) end
  for queue, count in pairs(metered) do
    if lazy().raise_count(line.minute .. queue, count) == count then
      redis.call('EXPIRE', line.minute .. queue, 60)
    end
  end
  return claims, limited_ms, unread
end

--- Lock the next jobs that a worker may have, in the order of their turns over all signatures it
--- serves, as far as limits allow: their ids, their turns, what is known of the signature that each
--- waited under, and how long a limit per minute keeps others back.
--- uses  queue_of served_heads
--- lazy  room_for limit_for left_in is_waiting heap_push heap_pop
local function choose(line, serves, want, worker, lease_ms)
  local ids, turns, origins, limited_ms, rooms = {}, {}, {}, 0, {}
  -- What is next is the head of a signature not looked at yet, or of one that has more.
  local next_head, more = served_heads(line, serves), {}
  local signature, turn = next_head()

  local function get_to_know()
    local first = {
      signature = signature, queue = queue_of(signature), turn = turn, read = 0, left = {}, at = 1,
      gone = {},
    }
    -- Nearly always no type has a limit, and no job brings one along.
    if line.has_limits ~= false or string.sub(signature, -2) == '}]' then
      rooms[first.queue] = rooms[first.queue] or lazy().room_for(line, first.queue)
      first.room = rooms[first.queue]
      first.limit = lazy().limit_for(first.room, signature)
    end
    return first
  end

  local function whose_turn()
    if not signature and not more[1] then return nil end
    if not signature or (more[1] and more[1].turn < turn) then return lazy().heap_pop(more) end
    local first = get_to_know()
    signature, turn = next_head()
    return first
  end

  local function has_room(first)
    if not first.room then return true end
    local left, pause_ms = lazy().left_in(line, first.queue, first.room, first.limit)
    if pause_ms > 0 and (limited_ms == 0 or pause_ms < limited_ms) then limited_ms = pause_ms end
    return left > 0
  end

  local function has_more(first)
    if first.left[first.at] then return true end
    local is_last = not signature and not more[1]
    local count = math.min(want - #ids, is_last and want or math.max(2, 2 * first.read))
    first.left, first.at = redis.pcall('ZRANGE', line.ids .. first.signature, first.read,
      first.read + count - 1, 'WITHSCORES'), 1
    -- Something else lies where the signature is indexed: it is passed over, and the rest goes on.
    if first.left.err then first.left = {} end
    first.read = first.read + #first.left / 2
    return #first.left > 0
  end

  local function take(first, id)
    local limit, room, at = first.limit, first.room, #ids + 1
    if limit and limit.most then room.running = room.running + 1 end
    if limit and limit.a_minute then room.started = room.started + 1 end
    ids[at], turns[at], origins[at] = id, first.left[first.at + 1], first
  end

  -- So many locked elsewhere may stand in front before this look ends.
  local patience, first = 1000, whose_turn()
  while first and #ids < want and patience > 0 do
    if not has_room(first) or not has_more(first) then
      first = whose_turn()
    else
      local id = first.left[first.at]
      if redis.call('SET', line.lock .. id, worker, 'PX', lease_ms, 'NX') then
        take(first, id)
      elseif not lazy().is_waiting(line, id, first.signature) then
        -- Locked elsewhere and out of the list: another client has claimed it. If it
        -- is locked and still waits, it stays there until the lock is released or runs out.
        first.read = first.read - 1
      else
        patience = patience - 1
      end
      first.at = first.at + 2
      if (signature or more[1]) and #ids < want then
        if has_more(first) then
          first.turn = tonumber(first.left[first.at + 1])
          lazy().heap_push(more, first)
        end
        first = whose_turn()
      end
    end
  end
  return ids, turns, origins, limited_ms
end

--- The signatures that have waiting jobs and that a worker can serve, in turn: a function that gives
--- the next one and its turn, and nothing after the last.
local function served_heads(line, serves)
  local page, at, after = {}, 1, '-inf'
  local few = (line.head_count or redis.call('ZCARD', line.heads)) <= 200
    or redis.call('ZCARD', serves) <= 200
  if few then
    page = redis.call('ZINTER', 2, line.heads, serves, 'WEIGHTS', 1, 0, 'WITHSCORES')
  end

  -- Where both are many, only as many are looked at as are asked for.
  local function turn_page()
    local found = redis.call('ZRANGEBYSCORE', line.heads, after, '+inf', 'WITHSCORES',
      'LIMIT', 0, 200)
    if #found == 0 then return false end
    local names = {}
    for place = 1, #found, 2 do names[#names + 1] = found[place] end
    local fits = redis.call('ZMSCORE', serves, unpack(names))
    page, at, after = {}, 1, '(' .. found[#found]
    for place, name in ipairs(names) do
      if fits[place] then
        page[#page + 1] = name
        page[#page + 1] = found[2 * place]
      end
    end
    return true
  end

  return function()
    while not page[at] do
      if few or not turn_page() then return nil end
    end
    at = at + 2
    return page[at - 2], tonumber(page[at - 1])
  end
end

--- Put an entry into a heap that has the smallest turn on top.
local function heap_push(heap, entry)
  local at = #heap + 1
  while at > 1 do
    local above = math.floor(at / 2)
    if heap[above].turn <= entry.turn then break end
    heap[at], at = heap[above], above
  end
  heap[at] = entry
end

--- Take the entry with the smallest turn off a heap; nil when it is empty.
local function heap_pop(heap)
  local top, last = heap[1], table.remove(heap)
  if #heap == 0 then return top end
  local at, below = 1, 2
  while below <= #heap do
    if heap[below + 1] and heap[below + 1].turn < heap[below].turn then below = below + 1 end
    if last.turn <= heap[below].turn then break end
    heap[at] = heap[below]
    at, below = below, 2 * below
  end
  heap[at] = last
  return top
end
