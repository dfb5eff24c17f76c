--- Move what is at a place of a heap up to where its tag belongs.
---
--- These functions say which jobs of a queue with groups start next (`groups.lua` has the keys). What
--- one call takes is decided in tables and written at its end, so that a hundred jobs of ten groups
--- change each key ten times.
local function sift_up(heap, at)
  local each = heap[at]
  while at > 1 do
    local above = math.floor(at / 2)
    if heap[above].tag <= each.tag then break end
    heap[at], at = heap[above], above
  end
  heap[at] = each
end

--- Move the first of a heap down to where its tag belongs.
local function sift_down(heap)
  local each, size, at = heap[1], #heap, 1
  while 2 * at <= size do
    local below = 2 * at
    if below < size and heap[below + 1].tag < heap[below].tag then below = below + 1 end
    if heap[below].tag >= each.tag then break end
    heap[at], at = heap[below], below
  end
  heap[at] = each
end

--- Take the first out of a heap.
--- uses  sift_down
local function drop_first(heap)
  local last = table.remove(heap)
  if #heap == 0 then return end
  heap[1] = last
  sift_down(heap)
end

--- Those who take turns in a path, itself among them when it has jobs of its own. Of the groups come
--- one more than are looked at in this round: as long as one of them was not, nobody who is not here
--- is before them.
--- uses  group_key sift_up
local function open_turns(round, path, has_own)
  local queue, heap = round.queue, {}
  local found = redis.call('ZRANGE', group_key(queue, 'ready', path), 0, round.reach, 'WITHSCORES')
  local is_all = #found / 2 <= round.reach
  local turns = { path = path, heap = heap, changed = {}, left = is_all and math.huge or round.reach }
  for at = 1, #found, 2 do
    heap[#heap + 1] = { path = found[at], tag = tonumber(found[at + 1]), holder = turns }
  end
  if has_own then
    local known = redis.call('HMGET', group_key(queue, 'clock'), path, path .. '/')
    local tag = math.max(tonumber(known[1]) or 0, tonumber(known[2]) or 0)
    heap[#heap + 1] = { path = path, tag = tag, holder = turns, is_own = true }
    sift_up(heap, #heap)
  end
  round.opened[#round.opened + 1] = turns
  return turns
end

--- Give one no more turns in this round, nor later ones until that time.
--- uses  drop_first
local function set_aside_group(round, each, until_ms)
  local turns = each.holder
  round.looks = round.looks - 1
  each.until_ms, each.is_aside, turns.changed[each] = until_ms, true, true
  turns.left = turns.left - 1
  drop_first(turns.heap)
end

--- Whose turn it is, from the queue down; nothing when nobody else may start in this round.
--- uses  group_key group_settings held_until open_turns set_aside_group
local function next_turn(round)
  local queue, way, turns = round.queue, {}, round.root
  while turns.left > 0 and round.looks > 0 do
    local each = turns.heap[1]
    if not each then
      local above = table.remove(way)
      if not above then return nil end
      -- Nothing in it may start.
      set_aside_group(round, above)
      turns = above.holder
    elseif each.is_own then
      return way, each
    else
      local until_ms = round.has_limits and held_until(queue, each.path, round.now)
      if until_ms then
        set_aside_group(round, each, until_ms)
      else
        way[#way + 1] = each
        if each.turns == nil then
          local may_hold = round.has_parents and turns == round.root
          each.turns = may_hold and redis.call('EXISTS', group_key(queue, 'ready', each.path)) == 1
            and open_turns(round, each.path, redis.call('EXISTS', group_key(queue, 'jobs', each.path)) == 1)
        end
        if not each.turns then return way, each end
        turns = each.turns
      end
    end
  end
  -- There are more than were looked at.
  round.has_more = true
end

--- Let the first of those who take turns pay for a job.
--- uses  sift_down moved_on
local function charge_turn(each, price)
  local turns = each.holder
  turns.time, turns.left = each.tag, turns.left - 1
  each.tag = moved_on(each.tag, price)
  if each.is_own then turns.own_tag = each.tag else turns.changed[each] = true end
  sift_down(turns.heap)
end

--- The fields of a job by their names, of those that say how it takes turns.
local function turn_fields(round, fields)
  local found = {}
  for at = 1, #fields, 2 do
    if round.turn_fields[fields[at]] then found[fields[at]] = fields[at + 1] end
  end
  return found
end

--- Take the next of the queue's own jobs; one that another client has made wait may belong to a group.
--- uses  turn_fields charge_turn drop_first group_settings positive
local function take_own(round, own)
  local queue = round.queue
  local id = redis.call('RPOP', queue.wait) or redis.call('ZPOPMIN', queue.prioritized)[1]
  if not id then
    redis.pcall('GETDEL', queue.pc)
    round.has_own = false
    drop_first(own.holder.heap)
    return
  end
  local fields = redis.pcall('HGETALL', queue.base .. id)
  local known = turn_fields(round, fields)
  if known.gid then
    round.strays[#round.strays + 1] = { id, known.gid, tonumber(known.priority) or 0 }
  elseif #fields > 0 then
    local weight = positive(group_settings(queue, '').weight)
    round.ids[#round.ids + 1], round.fields[id] = id, fields
    round.turns[id] = { 'cost', 1, 'weight', weight, 'free', 0 }
    charge_turn(own, 1 / weight)
  end
end

--- The next of a group's waiting ids. As many are taken as it gets when all who take turns get the
--- same, then twice as many, and what is not needed goes back at the end.
--- uses  group_key
local function next_of_group(round, path)
  local line = round.lines[path]
  if not line or line.at > #line.found then
    local many = line and #line.found or math.ceil(round.want / round.among)
    line = { at = 1, found = redis.call('ZPOPMIN', group_key(round.queue, 'jobs', path), many) }
    round.lines[path] = line
  end
  line.at = line.at + 2
  return line.found[line.at - 2]
end

--- The first of those whose turn it is that may not spend so much in a window, and until when;
--- nothing when all may. In an empty window everybody may, however much it costs.
--- uses  windows_of
local function overspent(round, way, cost)
  for _, each in ipairs(way) do
    for _, window in ipairs(windows_of(round.queue, each.path, round.now)) do
      if window.spent > 0 and window.spent + cost > window.most then
        return each, round.now + window.left
      end
    end
  end
end

--- Count a started job where a limit is set; the reply is what is set.
--- uses  group_key group_settings spend
local function count_in(round, path, id, cost)
  local queue = round.queue
  local settings = group_settings(queue, path)
  if settings.concurrency then redis.call('SADD', group_key(queue, 'active', path), id) end
  spend(queue, path, cost, round.now)
  return settings
end

--- Until when a path was held up by a pause or a limit that was lifted since, if that is known.
--- uses  group_key
local function held_before(queue, path)
  local every = string.find(path, '/', 1, true) and '*/*' or '*'
  local freed = redis.call('HMGET', group_key(queue, 'freed'), path, every)
  return math.max(tonumber(freed[1]) or 0, tonumber(freed[2]) or 0)
end

--- Let those on the way to a job pay for it; the reply is what its event says of that, for the
--- history: `weight` is that of the tenant, `free` since when it waited for nothing but its turn, 0
--- when it always did; where a limit could hold it up it is left out.
--- uses  count_in charge_turn positive is_limited held_before
local function pay_for(round, way, path, id, cost, own_weight)
  local paid, free = { 'group', path, 'cost', cost, 'weight' }, 0
  for nth, each in ipairs(way) do
    local settings = round.has_limits and count_in(round, each.path, id, cost) or {}
    local weight = positive(settings.weight or each.path == path and own_weight)
    charge_turn(each, cost / weight)
    if nth == 1 then paid[6] = weight end
    if is_limited(settings) then free = nil end
    if free and round.has_freed then free = math.max(free, held_before(round.queue, each.path)) end
  end
  if free then paid[7], paid[8] = 'free', string.format('%.0f', free) end
  return paid
end

--- Take the next job of whoever's turn it is, unless somebody may not spend so much.
--- uses  next_of_group turn_fields positive overspent set_aside_group drop_first charge_turn pay_for
--- uses  group_key note_groups
local function take_grouped(round, way, last)
  local queue, path = round.queue, last.path
  local id = next_of_group(round, path)
  if not id then
    if last.is_own then
      -- The own jobs of a parent are no group of it.
      drop_first(last.holder.heap)
    elseif not round.has_parents and redis.call('EXISTS', group_key(queue, 'ready', path)) == 1 then
      -- Node's `obliterate` has deleted what says that some are in others.
      note_groups(queue, path .. '/')
      round.has_parents, last.turns = true, nil
    else
      set_aside_group(round, last)
    end
    return
  end
  local fields = redis.pcall('HGETALL', queue.base .. id)
  local known = turn_fields(round, fields)
  if known.gid == path then
    local cost = known.gcost and positive(known.gcost) or 1
    if round.has_limits then
      local poor, until_ms = overspent(round, way, cost)
      if poor then
        round.lines[path].at = round.lines[path].at - 2
        set_aside_group(round, poor, until_ms)
        return
      end
    end
    round.ids[#round.ids + 1], round.fields[id] = id, fields
    round.turns[id] = pay_for(round, way, path, id, cost, known.gweight)
    if last.is_own then charge_turn(last, cost) end
  end
  -- An id whose job is gone leaves the group, too, and so does one that Node has removed here and
  -- that another job was given since.
  if not known.gid or known.gid == path then round.gone[#round.gone + 1] = id end
  round.counts[path] = (round.counts[path] or 0) + 1
end

--- Write down what a round has taken from each group; the reply is how many jobs wait in those.
--- uses  group_key holder_of forget_turns
local function count_out_round(round)
  local queue, counts, sizes = round.queue, {}, {}
  for path, line in pairs(round.lines) do
    local back = {}
    for at = #line.found, line.at, -1 do back[#back + 1] = line.found[at] end
    for first = 1, #back, 1000 do
      redis.call('ZADD', group_key(queue, 'jobs', path),
        unpack(back, first, math.min(first + 999, #back)))
    end
  end
  for path, count in pairs(round.counts) do
    repeat
      counts[path] = (counts[path] or 0) + count
      path = holder_of(path)
    until path == ''
  end
  for path, count in pairs(counts) do
    sizes[path] = tonumber(redis.call('ZINCRBY', group_key(queue, 'sizes'), -count, path))
    round.is_emptied = round.is_emptied or sizes[path] <= 0
    -- The last ones may have been its own, and the turns of its groups not looked at.
    if sizes[path] <= 0 and round.has_parents and holder_of(path) == '' then
      forget_turns(queue, path)
    end
  end
  for first = 1, #round.gone, 1000 do
    redis.call('ZREM', group_key(queue, 'grouped'),
      unpack(round.gone, first, math.min(first + 999, #round.gone)))
  end
  if round.is_emptied then redis.call('ZREMRANGEBYSCORE', group_key(queue, 'sizes'), '-inf', 0) end
  return sizes
end

--- Write down how far those who took turns in a path have come.
--- uses  group_key
local function write_turns(round, turns, sizes)
  if (sizes[turns.path] or 1) <= 0 then return end
  local queue, ready, past, gone = round.queue, {}, {}, {}
  for each in pairs(turns.changed) do
    local into = ready
    if each.is_aside or sizes[each.path] <= 0 then
      into, gone[#gone + 1] = past, each.path
    end
    into[#into + 1] = each.tag
    into[#into + 1] = each.path
    -- What has no jobs is held when it has some.
    if each.until_ms and redis.call('ZSCORE', group_key(queue, 'sizes'), each.path) then
      redis.call('ZADD', group_key(queue, 'held'),
        each.until_ms == math.huge and '+inf' or each.until_ms, each.path)
    end
  end
  local ready_key, past_key = group_key(queue, 'ready', turns.path), group_key(queue, 'past', turns.path)
  for first = 1, #gone, 1000 do
    redis.call('ZREM', ready_key, unpack(gone, first, math.min(first + 999, #gone)))
  end
  for first = 1, #past, 1000 do
    redis.call('ZADD', past_key, unpack(past, first, math.min(first + 999, #past)))
  end
  for first = 1, #ready, 1000 do
    redis.call('ZADD', ready_key, unpack(ready, first, math.min(first + 999, #ready)))
  end
  if not turns.time then return end
  local clock = group_key(queue, 'clock')
  redis.call('HSET', clock, turns.path, turns.time)
  if turns.own_tag then redis.call('HSET', clock, turns.path .. '/', turns.own_tag) end
  -- What the time has passed is no advantage to anybody, so it may stay until more comes.
  if #past > 0 then redis.call('ZREMRANGEBYSCORE', past_key, '-inf', turns.time) end
end

--- Take jobs in turn until there are enough, or nobody may start another.
--- uses  open_turns next_turn take_own take_grouped count_out_round write_turns push_all_grouped
local function play_round(round)
  round.opened, round.lines, round.counts, round.gone, round.strays = {}, {}, {}, {}, {}
  round.root, round.has_more = open_turns(round, '', round.has_own), false
  round.reach, round.among = math.min(2 * round.reach, 1000), math.max(#round.root.heap, 1)
  while #round.ids < round.want and round.looks > 0 and #round.strays < 1000 do
    local way, last = next_turn(round)
    if not way then break end
    if last.path == '' then take_own(round, last) else take_grouped(round, way, last) end
    round.looks = round.looks - 1
  end
  local sizes = count_out_round(round)
  for _, turns in ipairs(round.opened) do write_turns(round, turns, sizes) end
  -- What another client has made wait without its group joins that now.
  push_all_grouped(round.queue, round.strays)
  round.has_more = round.has_more or #round.strays > 0
  -- One of them may be the first in a group that is in another.
  round.has_parents = round.has_parents or round.queue.has_groups == 2
end

--- Take the next jobs of a queue with groups, in turn: their ids, the fields of each, in how many
--- milliseconds a group that is held may start again, and what the event of each says of its turn.
--- Whether some are in others is `has_parents`.
--- uses  group_name group_key group_settings readmit_groups play_round
local function take_in_turn(queue, want, now, has_parents)
  readmit_groups(queue, now)
  group_settings(queue, '')
  local round = {
    queue = queue, want = want, now = now, ids = {}, fields = {}, turns = {}, looks = want + 1000,
    reach = want,
    turn_fields = { gid = true, gcost = true, gweight = true, priority = true },
    has_limits = queue.group_settings.has_any, has_parents = has_parents,
    has_freed = redis.call('EXISTS', group_name(queue, 'freed')) == 1,
    has_own = redis.call('EXISTS', queue.wait, queue.prioritized) > 0,
  }
  repeat
    play_round(round)
  until #round.ids == want or not round.has_more or round.looks < 1
  if #round.ids == want and not round.is_emptied then return round.ids, round.fields, 0, round.turns end
  local clock, past = group_key(queue, 'clock'), group_key(queue, 'past', '')
  local ready = group_key(queue, 'ready', '')
  if redis.call('EXISTS', group_key(queue, 'sizes')) == 0 then
    redis.call('ZREMRANGEBYSCORE', past, '-inf', redis.call('HGET', clock, '') or 0)
    if not round.has_own or redis.call('EXISTS', past, ready) == 0 then
      -- No group waits, and none has had more than another that may come, so the queue is one without
      -- groups until the next one comes. What is set holds for one that another client makes wait, too.
      if not round.has_limits then redis.call('HDEL', queue.base .. 'meta', 'groups') end
      redis.call('DEL', clock, past, ready, group_key(queue, 'marker'))
    end
  end
  -- There are more than one call looks at, and the next may start some of those.
  if #round.ids == 0 and round.looks < 1 then return round.ids, round.fields, 1, round.turns end
  local next_held = redis.call('ZRANGE', group_key(queue, 'held'), 0, 0, 'WITHSCORES')[2]
  local wait_ms = next_held and next_held ~= 'inf' and math.max(math.ceil(next_held - now), 1)
  return round.ids, round.fields, wait_ms or 0, round.turns
end
