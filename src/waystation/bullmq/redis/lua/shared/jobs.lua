--- Store a new job and emit `added`; returns its id, or nothing when something else than a job
--- lies under it. A group that nobody has read out of its options yet is read here.
--- lazy  group_in turn_of
local function store_job(queue, id, name, data, opts, group, timestamp, delay, priority, ...)
  if group == nil and string.find(opts, '"group":', 1, true) then group = lazy().group_in(opts) end
  local stored
  if group then
    stored = redis.pcall('HSET', queue.base .. id, 'name', name, 'data', data, 'opts', opts,
      'timestamp', timestamp, 'delay', delay, 'priority', priority, lazy().turn_of(group, ...))
  else
    stored = redis.pcall('HSET', queue.base .. id, 'name', name, 'data', data, 'opts', opts,
      'timestamp', timestamp, 'delay', delay, 'priority', priority, ...)
  end
  if type(stored) == 'table' then
    if not string.find(stored.err, 'WRONGTYPE', 1, true) then error(stored.err) end
    return nil
  end
  if group then
    redis.call('XADD', queue.events, '*', 'event', 'added', 'jobId', id, 'name', name,
      'group', group.path, 'cost', group.cost)
  else
    redis.call('XADD', queue.events, '*', 'event', 'added', 'jobId', id, 'name', name)
  end
  return id
end

--- The group that options as JSON name; nothing when they name none.
--- uses  group_of
local function group_in(opts)
  local is_read, options = pcall(cjson.decode, opts)
  return is_read and type(options) == 'table' and group_of(options.group) or nil
end

--- The fields of a job that say how it takes turns, so that whoever makes it wait need not read its
--- options, and more fields behind them.
local function turn_of(group, ...)
  if not group.weight then
    if group.cost == 1 then return 'gid', group.path, ... end
    return 'gid', group.path, 'gcost', group.cost, ...
  end
  return 'gid', group.path, 'gcost', group.cost, 'gweight', group.weight, ...
end

--- Add a job with options that the script reads; returns its id, an error code below zero, or
--- nothing when something else lies under the number it would get. With the id of a job that was
--- there before come the fields of that job.
--- uses  link_parent deduplicate store_job enqueue_job stored_fields
--- lazy  group_of group_room leave_group
local function insert_job(queue, number, name, data, opts, wants, now, is_flow)
  local id, parent_key = wants.id or number, wants.parent_key
  local job = queue.base .. id
  if parent_key and redis.call('EXISTS', parent_key) == 0 then return -5 end
  if wants.id and redis.call('EXISTS', job) == 1 then
    if parent_key then
      local code = link_parent(queue, id, parent_key, wants.parent, now, is_flow)
      if code ~= 0 then return code end
    end
    redis.call('XADD', queue.events, '*', 'event', 'duplicated', 'jobId', id)
    return id, stored_fields(job)
  end
  local group = wants.group and lazy().group_of(wants.group) or false
  if group and not wants.has_children then
    local room = lazy().group_room(queue, group, wants.group.maxSize)
    local rule = wants.deduplication
    -- A duplicate is none of those that would wait.
    local is_duplicate = rule and redis.call('EXISTS', queue.base .. 'de:' .. rule.id) == 1
    if room and room < 1 and not is_duplicate then return -11 end
  end
  local more = {}
  if wants.deduplication then
    if not wants.id and redis.call('EXISTS', job) == 1 then return nil end
    local owner = deduplicate(queue, id, name, data, opts, wants, now)
    if owner then return owner, stored_fields(queue.base .. owner) end
    more = { 'deid', wants.deduplication.id }
  end
  if parent_key then
    more[#more + 1] = 'parentKey'
    more[#more + 1] = parent_key
    more[#more + 1] = 'parent'
    more[#more + 1] = wants.parent
  end
  local timestamp, delay, priority = wants.timestamp or now, wants.delay or 0, wants.priority or 0
  if not store_job(queue, id, name, data, opts, group, timestamp, delay, priority, unpack(more)) then
    return nil
  end
  -- Where Node has removed a job of that id, the group does not know of it.
  if group and wants.id then lazy().leave_group(queue, id) end
  if wants.has_children then
    redis.call('ZADD', queue['waiting-children'], timestamp, id)
    redis.call('XADD', queue.events, '*', 'event', 'waiting-children', 'jobId', id)
  else
    enqueue_job(queue, id, timestamp, delay, priority, wants.lifo)
  end
  if parent_key then redis.call('SADD', parent_key .. ':dependencies', job) end
  return id
end

--- The fields of a job as they are stored; none when there is no job.
local function stored_fields(job)
  local fields = redis.pcall('HGETALL', job)
  return fields.err and {} or fields
end

--- A field of a job; nothing when it has none, is gone or is no hash.
local function field_of(job, field)
  local value = redis.pcall('HGET', job, field)
  return type(value) == 'string' and value or nil
end

--- What a job's key starts with, and its id; `near` is the base of a queue it is related to.
local function locate_job(key, near)
  -- Neither a queue's name nor a prefix that both share can be taken for a part of the id.
  local prefix = string.match(near, '^(.*:)[^:]+:$')
  if prefix and string.sub(key, 1, #prefix) == prefix then
    local name, id = string.match(string.sub(key, #prefix + 1), '^([^:]+:)(.+)$')
    if name then return prefix .. name, id end
  end
  return string.match(key, '^(.*:)([^:]+)$')
end

--- Delete everything that is kept about a job.
local function forget_job(job)
  redis.call('DEL', job, job .. ':lock', job .. ':logs', job .. ':dependencies',
    job .. ':processed', job .. ':failed', job .. ':unsuccessful', job .. ':output')
end

--- Delete a job that is in no state any more; a parent in the same queue that waited for nothing
--- else goes with it, one in another queue may run. The parent's key is false for a job without one.
--- uses  unlink_from_parent free_deduplication forget_job queue_at release_parent
local function erase_job(queue, id, now, parent_key)
  local job = queue.base .. id
  local base, parent = unlink_from_parent(queue, job, parent_key)
  free_deduplication(queue, id)
  forget_job(job)
  if not base then return end
  if base ~= queue.base then
    release_parent(queue_at(base), parent, now)
    return
  end
  redis.call('ZREM', base .. 'waiting-children', parent)
  erase_job(queue, parent, now)
end

--- Gather a job and, when asked, its children before it, but no more than `most`: of each that was
--- gathered all children were.
--- uses  queue_at locate_job
local function gather_tree(queue, id, parent_key, with_children, most, found)
  local job = queue.base .. id
  -- Asked for one more than are taken, so that a parent is not taken for one without children.
  for _, ask in ipairs(with_children and {
    { 'HRANDFIELD', ':processed', most + 1 }, { 'HRANDFIELD', ':failed', most + 1 },
    { 'ZRANGE', ':unsuccessful', 0, most }, { 'SRANDMEMBER', ':dependencies', most + 1 },
  } or {}) do
    for _, child in ipairs(redis.call(ask[1], job .. ask[2], unpack(ask, 3))) do
      if #found >= most then return end
      local base, child_id = locate_job(child, queue.base)
      gather_tree(queue_at(base), child_id, job, true, most, found)
    end
  end
  if #found < most then found[#found + 1] = { queue = queue, id = id, parent_key = parent_key } end
end

--- Remove jobs that `gather_tree` has found from whatever state they are in.
--- uses  drop_from_sets drop_from_lists free_deduplication forget_job events_cap
local function remove_gathered(found, by)
  local listed = {}
  for _, each in ipairs(found) do
    each.was_in = drop_from_sets(each.queue, each.id)
    if not each.was_in then
      local base = each.queue.base
      listed[base] = listed[base] or { queue = each.queue }
      table.insert(listed[base], each)
    end
  end
  for _, some in pairs(listed) do drop_from_lists(some.queue, some) end
  for _, each in ipairs(found) do
    local of, job = each.queue, each.queue.base .. each.id
    free_deduplication(of, each.id)
    if redis.call('EXISTS', job) == 1 then
      local who = by ~= '' and { 'by', by } or {}
      redis.call('XADD', of.events, 'MAXLEN', '~', events_cap(of.meta), '*', 'event', 'removed',
        'jobId', each.id, 'prev', each.was_in or 'unknown', unpack(who))
    end
    forget_job(job)
  end
end
