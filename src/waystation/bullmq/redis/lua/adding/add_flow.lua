--- Add trees of jobs, all or nothing; parents stand before their children.
--- Each job is its queue's base, its name, data, options, and the options for this script as JSON (see `add`).
--- A job with `has_children` waits for them; nobody else can have the id of one that `is_new`. The reply has an id for each job, with the fields
--- of one that was there before;
--- or, when nothing was added, a number below zero and the place of the job it is about.
--- keys  meta absent
--- args  now:str|int= jobs:str|bytes... -> ids_or_codes
--- uses  instant_ms queue_at events_cap has_other_parent insert_job read_parent release_parent is_held_back
--- uses  group_of group_room holder_of must_hold check_queue check_wants store_job enqueue_job mark_ready waiting_list
now = instant_ms(now)
local queues, numbers, added, parents, is_parent, waiting = {}, {}, {}, {}, {}, {}
local wants, seen, many = {}, {}, (#ARGV - jobs + 1) / 5

for nth = 1, many do
  local at = jobs + (nth - 1) * 5
  local base = ARGV[at]
  local want = cjson.decode(ARGV[at + 4])
  local parent_key = want.parent_key
  if parent_key then
    if not added[parent_key] and redis.call('EXISTS', parent_key) == 0 then return { -5, nth } end
    if not want.is_new and has_other_parent(base .. want.id, parent_key) then return { -7, nth } end
    if not is_parent[parent_key] then parents[#parents + 1] = want end
    is_parent[parent_key] = true
  end
  wants[nth] = want
  added[base .. want.id] = true
  if want.group and not want.has_children then
    local group = group_of(want.group)
    local coming, path = waiting[base] or {}, group.path
    local room = group_room(queue_at(base), group, want.group.maxSize, coming)
    if room and room < 1 then return { -11, nth } end
    repeat
      coming[path] = (coming[path] or 0) + 1
      path = holder_of(path)
    until path == ''
    waiting[base] = coming
  end
  queues[base] = queues[base] or queue_at(base)
  check_queue(base, seen)
  if not (want.is_new and seen[parent_key]) then
    check_wants(queues[base], want, seen)
    must_hold('HLEN', base .. want.id)
  end
  numbers[base] = (numbers[base] or 0) + 1
end

for base, queue in pairs(queues) do
  queue.is_held = is_held_back(queue) and true or false
  -- Counted as Node does; every job of a flow has an id of its own.
  local counted = redis.pcall('INCRBY', queue.id, numbers[base])
  numbers[base] = type(counted) == 'number' and counted - numbers[base] or 0
end

-- What is new and simply waits, which in a large flow is nearly all, is pushed a thousand at a time.
local stamp, ready, children = string.format('%.0f', now), {}, {}

local function flushed(command, key, members)
  if #members > 0 then redis.call(command, key, unpack(members)) end
  return {}
end

local function push_ready(queue)
  if not ready[queue] or #ready[queue] == 0 then return end
  ready[queue] = flushed('LPUSH', waiting_list(queue), ready[queue])
  mark_ready(queue)
end

local function insert_new(queue, id, name, data, opts, want)
  local delay, priority, more = want.delay or 0, want.priority or 0, {}
  if want.parent_key then
    more = { 'parentKey', want.parent_key, 'parent', want.parent }
    local siblings = children[want.parent_key] or {}
    siblings[#siblings + 1] = queue.base .. id
    children[want.parent_key] = #siblings < 1000 and siblings
      or flushed('SADD', want.parent_key .. ':dependencies', siblings)
  end
  store_job(queue, id, name, data, opts, want.group and group_of(want.group), want.timestamp or stamp,
    delay, priority, unpack(more))
  if want.has_children then
    redis.call('ZADD', queue['waiting-children'], want.timestamp or stamp, id)
    redis.call('XADD', queue.events, '*', 'event', 'waiting-children', 'jobId', id)
  elseif delay > 0 or priority > 0 or want.lifo or want.group then
    push_ready(queue)
    enqueue_job(queue, id, want.timestamp or now, delay, priority, want.lifo)
  else
    ready[queue] = ready[queue] or {}
    table.insert(ready[queue], id)
    redis.call('XADD', queue.events, '*', 'event', 'waiting', 'jobId', id)
    if #ready[queue] == 1000 then push_ready(queue) end
  end
  return id
end

local ids = {}
for nth = 1, many do
  local at, want = jobs + (nth - 1) * 5, wants[nth]
  local base = ARGV[at]
  local queue = queues[base]
  numbers[base] = numbers[base] + 1
  if want.is_new then
    ids[nth] = insert_new(queue, want.id, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], want)
  else
    push_ready(queue)
    local id, before = insert_job(queue, string.format('%.0f', numbers[base]), ARGV[at + 1],
      ARGV[at + 2], ARGV[at + 3], want, now, true)
    ids[nth] = before and { id, before } or id
  end
end
for _, queue in pairs(queues) do push_ready(queue) end
for parent_key, members in pairs(children) do flushed('SADD', parent_key .. ':dependencies', members) end
-- A parent whose children had all been completed before may run.
for _, want in ipairs(parents) do
  if redis.call('EXISTS', want.parent_key .. ':dependencies') == 0 then
    local parent = read_parent(want.parent_key, want.parent)
    release_parent(queue_at(parent.queueKey .. ':'), parent.id, now)
  end
end
for _, queue in pairs(queues) do
  redis.call('XTRIM', queue.events, 'MAXLEN', '~', events_cap(queue.meta))
end
return ids
