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
--- uses  on_group
--- lazy  add_own_turn
local function open_turns(round, path, has_own)
  local heap, found = {}, on_group(round.queue, 'ZRANGE', 'ready', path, 0, round.reach, 'WITHSCORES')
  local many, left = #found / 2, round.reach
  local turns = { path = path, heap = heap, changed = {}, left = many <= left and math.huge or left }
  for at = 1, many do
    heap[at] = {
      path = found[2 * at - 1], tag = tonumber(found[2 * at]), holder = turns, paid = false,
    }
  end
  if has_own then lazy().add_own_turn(round, turns) end
  round.opened[#round.opened + 1] = turns
  return turns
end

--- Let the own jobs of a path take turns with its groups.
--- uses  on_group sift_up
local function add_own_turn(round, turns)
  local heap, path = turns.heap, turns.path
  local known = on_group(round.queue, 'HMGET', 'clock', nil, path, path .. '/')
  local tag = math.max(tonumber(known[1]) or 0, tonumber(known[2]) or 0)
  heap[#heap + 1] = { path = path, tag = tag, holder = turns, is_own = true }
  sift_up(heap, #heap)
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

--- Whose turn it is; nothing when nobody else may start in this round. `round.way` has those who pay
--- for the job, from the queue down.
--- uses  open_turns
--- lazy  group_key held_until set_aside_group
local function next_turn(round)
  local way, turns = round.way, round.root
  for at = #way, 1, -1 do way[at] = nil end
  while turns.left > 0 and round.looks > 0 do
    local each = turns.heap[1]
    if not each then
      local above = table.remove(way)
      if not above then return nil end
      -- Nothing in it may start.
      lazy().set_aside_group(round, above)
      turns = above.holder
    elseif each.is_own then
      return each
    else
      local until_ms = round.has_limits and lazy().held_until(round.queue, each.path, round.now)
      if until_ms then
        lazy().set_aside_group(round, each, until_ms)
      else
        way[#way + 1] = each
        if round.has_parents and each.turns == nil and turns == round.root then
          local ready = lazy().group_key(round.queue, 'ready', each.path)
          local jobs = lazy().group_key(round.queue, 'jobs', each.path)
          each.turns = redis.call('EXISTS', ready) == 1
            and open_turns(round, each.path, redis.call('EXISTS', jobs) == 1)
        end
        if not each.turns then return each end
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

--- The fields of a job that say how it takes turns: its group, its cost and its weight.
local function turn_fields(fields)
  local path, cost, weight
  for at = 1, #fields, 2 do
    local name = fields[at]
    if name == 'gid' then
      path = fields[at + 1]
    elseif name == 'gcost' then
      cost = fields[at + 1]
    elseif name == 'gweight' then
      weight = fields[at + 1]
    end
  end
  return path, cost, weight
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
  local path = turn_fields(fields)
  if path then
    local priority = redis.call('HGET', queue.base .. id, 'priority')
    round.strays[#round.strays + 1] = { id, path, tonumber(priority) or 0 }
  elseif #fields > 0 then
    local weight, nth = positive(group_settings(queue, '').weight), #round.ids + 1
    round.ids[nth], round.fields[nth] = id, fields
    round.turns[nth] = { 'cost', 1, 'weight', weight, 'free', 0 }
    charge_turn(own, 1 / weight)
  end
end

--- The next of a group's waiting ids. As many are taken as it gets when all who take turns get the
--- same, then twice as many, and what is not needed goes back at the end.
--- uses  on_group
local function next_of_group(round, path)
  local line = round.lines[path]
  if not line or line.at > line.size then
    local many = line and line.size or math.ceil(round.want / round.among)
    local found = on_group(round.queue, 'ZPOPMIN', 'jobs', path, many)
    line = { at = 1, found = found, size = #found }
    round.lines[path] = line
  end
  line.at = line.at + 2
  return line.found[line.at - 2]
end

--- The first of those whose turn it is that may not spend so much in a window, and until when;
--- nothing when all may. In an empty window everybody may, however much it costs.
--- uses  windows_of
local function overspent(round, cost)
  for _, each in ipairs(round.way) do
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
--- uses  charge_turn positive
--- lazy  count_in is_limited held_before
local function pay_for(round, path, id, cost, own_weight)
  local first, free, paid = round.way[1], 0, nil
  -- Nearly all jobs of a group cost the same.
  paid = not own_weight and not round.way[2] and first.paid
  if paid and paid[4] == cost then
    charge_turn(first, cost / paid[6])
    return paid
  end
  paid = nil
  for _, each in ipairs(round.way) do
    local settings = round.has_limits and lazy().count_in(round, each.path, id, cost)
    local weight = positive(settings and settings.weight or each.path == path and own_weight)
    charge_turn(each, cost / weight)
    paid = paid or { 'group', path, 'cost', cost, 'weight', weight }
    if settings and lazy().is_limited(settings) then free = nil end
    if free and round.has_freed then
      free = math.max(free, lazy().held_before(round.queue, each.path))
    end
  end
  if free then paid[7], paid[8] = 'free', free > 0 and string.format('%.0f', free) or '0' end
  if not round.has_limits and not own_weight and not round.way[2] then first.paid = paid end
  return paid
end

--- What becomes of a group that has no job left to give.
--- uses  group_key note_groups drop_first set_aside_group
local function end_group(round, last)
  if last.is_own then
    -- The own jobs of a parent are no group of it.
    drop_first(last.holder.heap)
  elseif not round.has_parents
    and redis.call('EXISTS', group_key(round.queue, 'ready', last.path)) == 1 then
    -- Node's `obliterate` has deleted what says that some are in others.
    note_groups(round.queue, last.path .. '/')
    round.has_parents, last.turns = true, nil
  else
    set_aside_group(round, last)
  end
end

--- Take the next job of whoever's turn it is, unless somebody may not spend so much.
--- uses  next_of_group turn_fields positive charge_turn pay_for
--- lazy  end_group overspent set_aside_group
local function take_grouped(round, last)
  local path = last.path
  local id = next_of_group(round, path)
  if not id then
    lazy().end_group(round, last)
    return
  end
  local fields = redis.pcall('HGETALL', round.queue.base .. id)
  local its, cost, own_weight = turn_fields(fields)
  if its == path then
    cost = cost and positive(cost) or 1
    if round.has_limits then
      local poor, until_ms = lazy().overspent(round, cost)
      if poor then
        round.lines[path].at = round.lines[path].at - 2
        lazy().set_aside_group(round, poor, until_ms)
        return
      end
    end
    local nth = #round.ids + 1
    round.ids[nth], round.fields[nth] = id, fields
    round.turns[nth] = pay_for(round, path, id, cost, own_weight)
    if last.is_own then charge_turn(last, cost) end
  end
  -- An id whose job is gone leaves the group, too, and so does one that Node has removed here and
  -- that another job was given since.
  if not its or its == path then round.gone[#round.gone + 1] = id end
  round.counts[path] = (round.counts[path] or 0) + 1
end

--- Write down what a round has taken from each group; the reply is how many jobs wait in those.
--- uses  on_group
--- lazy  count_holders forget_emptied
local function count_out_round(round)
  local queue = round.queue
  for path, line in pairs(round.lines) do
    local back = line.at <= line.size and {} or ''
    for at = line.size, line.at, -1 do back[#back + 1] = line.found[at] end
    for first = 1, #back, 1000 do
      on_group(queue, 'ZADD', 'jobs', path, unpack(back, first, math.min(first + 999, #back)))
    end
  end
  local counts = round.has_parents and lazy().count_holders(round.counts) or round.counts
  local paths, sizes = {}, {}
  for path in pairs(counts) do paths[#paths + 1] = path end
  for first = 1, #paths, 1000 do
    local last, left, emptied = math.min(first + 999, #paths), {}, {}
    for nth, size in ipairs(on_group(queue, 'ZMSCORE', 'sizes', nil, unpack(paths, first, last))) do
      local path = paths[first + nth - 1]
      size = (tonumber(size) or 0) - counts[path]
      sizes[path] = size
      if size > 0 then
        left[#left + 1], left[#left + 2] = size, path
      else
        emptied[#emptied + 1] = path
      end
    end
    if #left > 0 then on_group(queue, 'ZADD', 'sizes', nil, unpack(left)) end
    if #emptied > 0 then
      round.is_emptied = true
      on_group(queue, 'ZREM', 'sizes', nil, unpack(emptied))
      -- The last ones may have been its own, and the turns of its groups not looked at.
      if round.has_parents then lazy().forget_emptied(queue, emptied) end
    end
  end
  for first = 1, #round.gone, 1000 do
    on_group(queue, 'ZREM', 'grouped', nil,
      unpack(round.gone, first, math.min(first + 999, #round.gone)))
  end
  return sizes
end

--- What was taken from each path and all that are in it.
--- uses  holder_of
local function count_holders(taken)
  local counts = {}
  for path, count in pairs(taken) do
    repeat
      counts[path] = (counts[path] or 0) + count
      path = holder_of(path)
    until path == ''
  end
  return counts
end

--- Forget the turns in those of these paths that the queue itself holds.
--- uses  holder_of forget_turns
local function forget_emptied(queue, paths)
  for _, path in ipairs(paths) do
    if holder_of(path) == '' then forget_turns(queue, path) end
  end
end

--- Write down how far those who took turns in a path have come.
--- uses  on_group
local function write_turns(round, turns, sizes)
  if (sizes[turns.path] or 1) <= 0 then return end
  local queue, within, ready, past, gone = round.queue, turns.path, {}, {}, {}
  for each in pairs(turns.changed) do
    local into = ready
    if each.is_aside or sizes[each.path] <= 0 then
      into, gone[#gone + 1] = past, each.path
    end
    into[#into + 1], into[#into + 2] = each.tag, each.path
    -- What has no jobs is held when it has some.
    if each.until_ms and on_group(queue, 'ZSCORE', 'sizes', nil, each.path) then
      on_group(queue, 'ZADD', 'held', nil, each.until_ms == math.huge and '+inf' or each.until_ms,
        each.path)
    end
  end
  for first = 1, #gone, 1000 do
    on_group(queue, 'ZREM', 'ready', within, unpack(gone, first, math.min(first + 999, #gone)))
  end
  for first = 1, #past, 1000 do
    on_group(queue, 'ZADD', 'past', within, unpack(past, first, math.min(first + 999, #past)))
  end
  for first = 1, #ready, 1000 do
    on_group(queue, 'ZADD', 'ready', within, unpack(ready, first, math.min(first + 999, #ready)))
  end
  if not turns.time then return end
  on_group(queue, 'HSET', 'clock', nil, within, turns.time)
  if turns.own_tag then on_group(queue, 'HSET', 'clock', nil, within .. '/', turns.own_tag) end
  -- What the time has passed is no advantage to anybody, so it may stay until more comes.
  if #past > 0 then on_group(queue, 'ZREMRANGEBYSCORE', 'past', within, '-inf', turns.time) end
end

--- Take jobs in turn until there are enough, or nobody may start another.
--- uses  open_turns next_turn take_grouped count_out_round write_turns
--- lazy  take_own push_all_grouped
local function play_round(round)
  round.opened, round.lines, round.counts, round.gone, round.strays = {}, {}, {}, {}, {}
  round.root, round.has_more = open_turns(round, '', round.has_own), false
  round.reach, round.among = math.min(2 * round.reach, 1000), math.max(#round.root.heap, 1)
  while #round.ids < round.want and round.looks > 0 and #round.strays < 1000 do
    local last = next_turn(round)
    if not last then break end
    if last.path == '' then lazy().take_own(round, last) else take_grouped(round, last) end
    round.looks = round.looks - 1
  end
  local sizes = count_out_round(round)
  for _, turns in ipairs(round.opened) do write_turns(round, turns, sizes) end
  if #round.strays > 0 then
    -- What another client has made wait without its group joins that now.
    lazy().push_all_grouped(round.queue, round.strays)
    round.has_more = true
  end
  -- One of them may be the first in a group that is in another.
  round.has_parents = round.has_parents or round.queue.has_groups == 2
end

--- Take the next jobs of a queue with groups, in turn: their ids, the fields of each, in how many
--- milliseconds a group that is held may start again, and what the event of each says of its turn.
--- Whether some are in others is `has_parents`.
--- uses  group_name on_group play_round
--- lazy  group_settings readmit_groups forget_groups
local function take_in_turn(queue, want, now, has_parents)
  local round = {
    queue = queue, want = want, now = now, ids = {}, fields = {}, turns = {}, way = {},
    looks = want + 1000, reach = want, has_parents = has_parents,
    -- What comes later has its place, so that the table need not grow.
    root = false, opened = false, lines = false, counts = false, gone = false, strays = false,
    among = false, has_more = false,
  }
  local freed = group_name(queue, 'freed')
  -- Mostly nothing is held or limited, and no job is without a group.
  if redis.call('EXISTS', group_name(queue, 'held'), group_name(queue, 'settings'), freed,
    queue.wait, queue.prioritized) > 0 then
    lazy().readmit_groups(queue, now)
    lazy().group_settings(queue, '')
    round.has_limits = queue.group_settings.has_any
    round.has_freed = redis.call('EXISTS', freed) == 1
    round.has_own = redis.call('EXISTS', queue.wait, queue.prioritized) > 0
  end
  repeat
    play_round(round)
  until #round.ids == want or not round.has_more or round.looks < 1
  if #round.ids == want and not round.is_emptied then return round.ids, round.fields, 0, round.turns end
  if on_group(queue, 'ZCARD', 'sizes') == 0 then lazy().forget_groups(round) end
  -- There are more than one call looks at, and the next may start some of those.
  if #round.ids == 0 and round.looks < 1 then return round.ids, round.fields, 1, round.turns end
  local next_held = on_group(queue, 'ZRANGE', 'held', nil, 0, 0, 'WITHSCORES')[2]
  local wait_ms = next_held and next_held ~= 'inf' and math.max(math.ceil(next_held - now), 1)
  return round.ids, round.fields, wait_ms or 0, round.turns
end

--- Make a queue one without groups until the next job of one comes, when no group waits, and none has
--- had more than another that may come.
--- uses  group_key
local function forget_groups(round)
  local queue = round.queue
  local clock, past = group_key(queue, 'clock'), group_key(queue, 'past', '')
  local ready = group_key(queue, 'ready', '')
  redis.call('ZREMRANGEBYSCORE', past, '-inf', redis.call('HGET', clock, '') or 0)
  if round.has_own and redis.call('EXISTS', past, ready) > 0 then return end
  -- What is set holds for one that another client makes wait, too.
  if not round.has_limits then redis.call('HDEL', queue.base .. 'meta', 'groups') end
  redis.call('DEL', clock, past, ready, group_key(queue, 'marker'))
end
