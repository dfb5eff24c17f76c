--- The name of a key that holds what waits in groups.
--- Jobs of a group wait apart, and groups take turns by weighted virtual time (start-time fair
--- queueing): each has a tag, the lowest is next, and a job moves the tag of its group on by its cost
--- over the group's weight. A group's path is its id, or its tenant's and its own: `acme/key`; the
--- queue itself has the path ''. What one of them holds takes turns in it, and it itself, with all
--- that it holds, takes turns in what holds it:
---   ready       paths by their tags, of those that have something to start; one for each holder
---   past        the tags of those that are not ready, until the holder's time has passed them
---   clock       the time of each holder, behind its path and '/' the tag of its own jobs, and
---               behind '#', which no path has in it, how many jobs have come
---   held        paths by when they may start something again: paused, or at a limit
---   jobs        the waiting ids of one group, by priority and arrival
---   sizes       paths by how many of their jobs wait, those of their groups included
---   active      the ids that workers hold, of a path that has a limit of them
---   spent       what has been started in the window of a rate limit, of one path, and since when
---   today       the same on a day, of one path that has a budget
---   freed       paths by when a pause or a limit of theirs was last lifted, for an hour
---   marker      what idle workers of ours block on beside the queue's own marker
--- Whatever has waiting jobs is ready or held, or holds only what is held.
local function group_name(queue, kind, path)
  if kind == 'grouped' then return queue.base .. 'de' end
  return queue.base .. 'groups:' .. kind .. (path and ':' .. path or '')
end

--- The same for a script that writes. Another client may have put anything in its place, and the
--- jobs of other groups must go on: what is of another type is begun anew.
--- uses  group_name
local function group_key(queue, kind, path)
  -- A queue answers every name that it was not given with that of a key.
  local sound = type(queue.sound_keys) == 'table' and queue.sound_keys or {}
  local name = path and kind .. ':' .. path or kind
  if sound[name] then return sound[name] end
  local key = group_name(queue, kind, path)
  local types = {
    clock = 'hash', settings = 'hash', freed = 'hash', active = 'set', spent = 'string',
    today = 'string',
  }
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= (types[kind] or 'zset') then redis.call('DEL', key) end
  sound[name], queue.sound_keys = key, sound
  return key
end

--- A command on such a key. Nearly always it holds what it should, so it is only looked at when that
--- has failed.
--- uses  group_name
--- lazy  group_key
local function on_group(queue, command, kind, path, ...)
  local found = redis.pcall(command, group_name(queue, kind, path), ...)
  if type(found) == 'table' and found.err then
    return redis.call(command, lazy().group_key(queue, kind, path), ...)
  end
  return found
end

--- A cost or a weight out of what another client may have written; 1 when it is none. The bounds are
--- those of Python: with a price beyond all numbers the time of a queue would stand still.
local function positive(text)
  local number = tonumber(text)
  return number and number >= 1e-6 and number <= 1e12 and number or 1
end

--- A tag moved on by a price. In a time that has grown large a small price would be lost in rounding,
--- and whoever pays nothing is always next.
local function moved_on(tag, price)
  return tag + (price < 0 and price or math.max(price, tag * 2 ^ -52))
end

--- A group as the options of a job name it, with its path; nothing when they name none. As in
--- Python: what is neither a letter of ASCII, a digit nor one of _.-~ is written as its bytes, %2F.
--- uses  positive
local function group_of(named)
  if type(named) ~= 'table' then return nil end
  local function quoted(id)
    if type(id) ~= 'string' and type(id) ~= 'number' or id == '' then return nil end
    return (string.gsub(tostring(id), '[^%w_.~-]', function(letter)
      return string.format('%%%02X', string.byte(letter))
    end))
  end
  local path, parent = quoted(named.id), quoted(named.parent)
  if not path then return nil end
  return {
    path = parent and parent .. '/' .. path or path, cost = positive(named.cost),
    weight = named.weight and positive(named.weight),
  }
end

--- What holds a path; nothing for the queue itself.
local function holder_of(path)
  if path == '' then return nil end
  return string.match(path, '^(.*)/') or ''
end

--- The tag at which a path that was not ready takes its turn again: nobody gathers credit.
--- uses  group_key
local function present_tag(queue, path, holder)
  return math.max(tonumber(redis.call('HGET', group_key(queue, 'clock'), holder)) or 0,
    tonumber(redis.call('ZSCORE', group_key(queue, 'past', holder), path)) or 0)
end

--- Let a path take turns in what holds it, and that in what holds it in turn.
--- uses  group_key holder_of present_tag
local function make_group_ready(queue, path)
  local holder = holder_of(path)
  while holder do
    -- What is held comes back with all that it holds.
    if redis.call('ZSCORE', group_key(queue, 'held'), path) then return end
    local tag = present_tag(queue, path, holder)
    if redis.call('ZADD', group_key(queue, 'ready', holder), 'NX', tag, path) == 1 then
      redis.call('ZREM', group_key(queue, 'past', holder), path)
    end
    path, holder = holder, holder_of(holder)
  end
end

--- Note that jobs wait in groups, and whether one of those is in another.
local function note_groups(queue, path)
  local kind = string.find(path, '/', 1, true) and 2 or 1
  local known = queue.has_groups
  if known == 2 or known == kind then return end
  if kind == 2 then
    redis.call('HSET', queue.base .. 'meta', 'groups', 2)
  else
    redis.call('HSETNX', queue.base .. 'meta', 'groups', 1)
  end
  -- What this call claims takes turns already.
  queue.has_groups = kind
end

--- Wake an idle worker of ours for the jobs of groups. The queue's own marker is not enough: a worker
--- of Node's may take it, and finds nothing.
--- uses  on_group
local function mark_groups(queue)
  on_group(queue, 'ZADD', 'marker', nil, 0, '0')
end

--- Put jobs into their groups, behind those of their priority or ahead of them; each is an id, a
--- path, a priority, and whether it comes first. They are at most a thousand.
--- uses  group_key make_group_ready holder_of note_groups mark_groups
local function push_all_grouped(queue, jobs)
  if #jobs == 0 then return end
  local clock = group_key(queue, 'clock')
  local arrivals = redis.call('HINCRBY', clock, '#', #jobs) - #jobs
  local grouped, lines, counts, begun = {}, {}, {}, {}
  for nth, job in ipairs(jobs) do
    local id, path = job[1], job[2]
    local arrival = (arrivals + nth) % 2147483648
    local line = lines[path] or {}
    lines[path] = line
    -- What comes first counts down from the middle of its priority, what comes last up.
    line[#line + 1] = job[3] * 4294967296 + 2147483648 + (job[4] and -arrival or arrival)
    line[#line + 1] = id
    grouped[2 * nth - 1], grouped[2 * nth] = arrival, id
  end
  redis.call('ZADD', group_key(queue, 'grouped'), unpack(grouped))
  for path, line in pairs(lines) do
    local jobs_key, above = group_key(queue, 'jobs', path), path
    -- Another client may have made one wait twice.
    local added = redis.call('ZADD', jobs_key, unpack(line))
    -- The groups in it may all be held, so what counts is whether it had jobs of its own.
    if redis.call('ZCARD', jobs_key) == added then begun[#begun + 1] = path end
    note_groups(queue, path)
    repeat
      counts[above] = (counts[above] or 0) + added
      above = holder_of(above)
    until above == ''
  end
  for path, count in pairs(counts) do
    redis.call('ZINCRBY', group_key(queue, 'sizes'), count, path)
  end
  for _, path in ipairs(begun) do make_group_ready(queue, path) end
  mark_groups(queue)
end

--- Put a job into its group.
--- uses  push_all_grouped
local function push_grouped(queue, id, path, priority, is_first)
  push_all_grouped(queue, { { id, path, priority, is_first } })
end

--- Forget the turns in a path in which nobody waits, so that nobody has an advantage over another.
--- uses  group_key
local function forget_turns(queue, path)
  redis.call('HDEL', group_key(queue, 'clock'), path, path .. '/')
  redis.call('DEL', group_key(queue, 'past', path), group_key(queue, 'ready', path))
end

--- Count a job out of a group; what has none left is neither held nor, as a holder, known.
--- uses  group_key holder_of forget_turns
local function count_out(queue, path)
  repeat
    if tonumber(redis.call('ZINCRBY', group_key(queue, 'sizes'), -1, path)) <= 0 then
      redis.call('ZREM', group_key(queue, 'sizes'), path)
      redis.call('ZREM', group_key(queue, 'held'), path)
      forget_turns(queue, path)
    end
    path = holder_of(path)
  until path == ''
end

--- Take a job out of the group in which it waits; false when it waits in none.
--- uses  group_key count_out field_of
local function leave_group(queue, id)
  if redis.call('ZREM', group_key(queue, 'grouped'), id) == 0 then return false end
  local path = field_of(queue.base .. id, 'gid')
  if path and redis.call('ZREM', group_key(queue, 'jobs', path), id) == 1 then
    count_out(queue, path)
  end
  return true
end

--- What is set for a path, as a table; what is not set for it is what is set for all of its kind.
--- uses  group_name group_key
local function group_settings(queue, path)
  local known = queue.group_settings
  if type(known) ~= 'table' then
    known = { has_any = redis.call('EXISTS', group_name(queue, 'settings')) == 1, of = {} }
    queue.group_settings = known
  end
  if known.of[path] then return known.of[path] end
  local settings = {}
  if known.has_any then
    local every = path == '' and '' or string.find(path, '/', 1, true) and '*/*' or '*'
    for _, text in ipairs(redis.call('HMGET', group_key(queue, 'settings'), every, path)) do
      local is_read, found = pcall(cjson.decode, text or '')
      for name, value in pairs(is_read and type(found) == 'table' and found or {}) do
        local number = tonumber(value)
        -- Another client may have written anything there, and jobs must go on.
        if number and number >= 1e-6 and number <= 2 ^ 53 then settings[name] = number end
        if name == 'paused' then settings[name] = value and value ~= cjson.null end
      end
    end
  end
  known.of[path] = settings
  return settings
end

--- Let a path that is held at a limit take turns again, to be held anew where one still binds.
--- uses  group_key make_group_ready mark_groups
local function let_in_group(queue, path)
  local held = group_key(queue, 'held')
  local until_ms = redis.call('ZSCORE', held, path)
  if not until_ms or until_ms == 'inf' then return end
  redis.call('ZREM', held, path)
  if redis.call('ZSCORE', group_key(queue, 'sizes'), path) then make_group_ready(queue, path) end
  mark_groups(queue)
end

--- Count a job no longer among those that workers hold, and let its group start another.
--- uses  group_key group_settings holder_of let_in_group
local function release_grouped(queue, id, path)
  repeat
    local settings = group_settings(queue, path)
    -- Where nothing is set for any group, nothing is counted.
    if not queue.group_settings.has_any then return end
    if settings.concurrency then
      redis.call('SREM', group_key(queue, 'active', path), id)
      let_in_group(queue, path)
    end
    path = holder_of(path)
  until path == ''
end

--- Count who holds a job anew, because a limit of them was set or lifted.
--- uses  group_key group_settings holder_of
local function count_active(queue)
  for _, id in ipairs(redis.call('LRANGE', queue.active, 0, -1)) do
    local path = redis.pcall('HGET', queue.base .. id, 'gid')
    while type(path) == 'string' and path ~= '' do
      if group_settings(queue, path).concurrency then
        redis.call('SADD', group_key(queue, 'active', path), id)
      else
        redis.call('SREM', group_key(queue, 'active', path), id)
      end
      path = holder_of(path)
    end
  end
end

--- What has been spent in a window, how long it lasts, and when it began.
local function spent_at(key)
  local left = redis.call('PTTL', key)
  -- A window without an end would bind for ever.
  if left <= 0 then return 0, 0 end
  local spent, began = string.match(redis.call('GET', key) or '', '^(%S+) (%d+)$')
  return tonumber(spent) or 0, left, tonumber(began)
end

--- The windows in which a path may spend so much: that of its rate limit, and the day of its budget.
--- uses  group_key group_settings spent_at
local function windows_of(queue, path, now)
  local settings, windows = group_settings(queue, path), {}
  -- A rate without a stretch of time, which only another client could write, is none.
  local rate = settings.duration and settings.max
  for kind, most in pairs({ spent = rate, today = settings.budget }) do
    local spent, left, began = spent_at(group_key(queue, kind, path))
    windows[#windows + 1] = {
      kind = kind, most = most, spent = spent, left = left, began = began or now,
      duration = kind == 'today' and 86400000 - now % 86400000 or settings.duration,
    }
  end
  return windows
end

--- Whether something is set for a path that can hold up its jobs.
local function is_limited(settings)
  return settings.concurrency or settings.max or settings.budget or settings.paused
end

--- When a path may start something again: a time in milliseconds, infinity while it is paused;
--- nothing when it may start now. One at its concurrency is looked at again, for what ended unheard.
--- uses  group_key group_settings windows_of
local function held_until(queue, path, now)
  local settings = group_settings(queue, path)
  if settings.paused then return math.huge end
  local most = settings.concurrency
  if most and redis.call('SCARD', group_key(queue, 'active', path)) >= most then return now + 5000 end
  local until_ms = nil
  for _, window in ipairs(windows_of(queue, path, now)) do
    if window.spent >= window.most then until_ms = math.max(until_ms or 0, now + window.left) end
  end
  return until_ms
end

--- Count out of the active ones of a path what ended without us: another client has settled it.
--- uses  group_key
local function forget_ended(queue, path)
  local active = group_key(queue, 'active', path)
  for _, id in ipairs(redis.call('SMEMBERS', active)) do
    if redis.call('EXISTS', queue.base .. id .. ':lock') == 0
      and not redis.call('LPOS', queue.base .. 'active', id) then
      redis.call('SREM', active, id)
    end
  end
end

--- Let those take turns again whose time has come, some of them in each call.
--- uses  group_key make_group_ready forget_ended
local function readmit_groups(queue, now)
  local held = group_key(queue, 'held')
  for _, path in ipairs(redis.call('ZRANGEBYSCORE', held, '-inf', now, 'LIMIT', 0, 100)) do
    redis.call('ZREM', held, path)
    forget_ended(queue, path)
    if redis.call('ZSCORE', group_key(queue, 'sizes'), path) then make_group_ready(queue, path) end
  end
end

--- Say when a group has spent four fifths of its budget for the day, and when it has spent it all.
local function note_budget(queue, path, before, after, budget)
  for _, share in ipairs({ 0.8, 1 }) do
    if before < share * budget and after >= share * budget then
      redis.call('XADD', queue.base .. 'events', '*', 'event', 'group-budget', 'group', path,
        'spent', after, 'budget', budget)
    end
  end
end

--- Count a cost in the windows of a path. What is spent beyond a rate limit, by a job that cost more
--- than was thought, makes its window longer by as many windows as it takes; a day ends with the day.
--- What a job did not need that began at `since` is room only in a window in which it was counted.
--- uses  group_key windows_of note_budget
local function spend(queue, path, cost, now, since)
  for _, window in ipairs(windows_of(queue, path, now)) do
    local after, left = math.max(window.spent + cost, 0), window.left
    if left == 0 then left = window.duration end
    local function more_than_one(spent) return math.max(math.ceil(spent / window.most) - 1, 0) end
    if window.kind == 'today' then
      note_budget(queue, path, window.spent, after, window.most)
    else
      left = left + (more_than_one(after) - more_than_one(window.spent)) * window.duration
    end
    if cost > 0 or window.left > 0 and since >= window.began then
      -- Four years are longer than any limit, and what servers take for certain.
      redis.call('SET', group_key(queue, window.kind, path),
        string.format('%.17g %.0f', after, window.began), 'PX',
        string.format('%.0f', math.min(math.max(left, 1), 2 ^ 37)))
    end
  end
end

--- Put a job that was not run back at the head of its group. What it was to cost is room in the windows
--- in which it began; its turn is over.
--- uses  positive spend let_in_group holder_of push_grouped
local function return_grouped(queue, id, path)
  local known = redis.call('HMGET', queue.base .. id, 'priority', 'gcost', 'processedOn')
  local cost, since, above = positive(known[2]), tonumber(known[3]) or 0, path
  repeat
    spend(queue, above, -cost, since, since)
    let_in_group(queue, above)
    above = holder_of(above)
  until above == ''
  push_grouped(queue, id, path, tonumber(known[1]) or 0, true)
end

--- Count a cost for a path and what holds it that was not known when the job began, at `since`; the
--- reply is the weight of its tenant, or nothing when nobody takes turns.
--- uses  group_key group_settings holder_of positive present_tag spend let_in_group moved_on
local function charge_more(queue, path, cost, weight, now, since)
  local is_first, of_tenant = true, nil
  local is_grouped = redis.call('HEXISTS', queue.base .. 'meta', 'groups') == 1
  if path == '' and is_grouped then
    local known = redis.call('HMGET', group_key(queue, 'clock'), '', '/')
    local tag = math.max(tonumber(known[1]) or 0, tonumber(known[2]) or 0)
    of_tenant = positive(group_settings(queue, '').weight)
    tag = moved_on(tag, cost / of_tenant)
    redis.call('HSET', group_key(queue, 'clock'), '/', string.format('%.17g', tag))
  end
  while path ~= '' do
    local holder = holder_of(path)
    spend(queue, path, cost, now, since)
    if cost < 0 then let_in_group(queue, path) end
    of_tenant = positive(group_settings(queue, path).weight or is_first and weight)
    -- In a parent of which no jobs wait nobody has had more than another.
    local has_turns = holder == '' or redis.call('ZSCORE', group_key(queue, 'sizes'), holder)
    if is_grouped and has_turns then
      local time = tonumber(redis.call('HGET', group_key(queue, 'clock'), holder)) or 0
      local more = cost / of_tenant
      local ready = tonumber(redis.call('ZSCORE', group_key(queue, 'ready', holder), path))
      local tag = math.max(moved_on(ready or present_tag(queue, path, holder), more), time)
      if ready then
        redis.call('ZADD', group_key(queue, 'ready', holder), tag, path)
      elseif tag > time then
        redis.call('ZADD', group_key(queue, 'past', holder), tag, path)
      end
    end
    path, is_first = holder, false
  end
  return of_tenant
end

--- How many more jobs may wait in a group and in what holds it, of itself no more than `most`, where
--- so many of a path are about to; nothing when there is no limit.
--- uses  group_key group_settings holder_of
local function group_room(queue, group, most, coming)
  local room, path = nil, group.path
  most = tonumber(most)
  repeat
    local set = group_settings(queue, path).maxSize
    if set or most then
      local waiting = tonumber(redis.call('ZSCORE', group_key(queue, 'sizes'), path)) or 0
      local left = math.min(set or most, most or set) - waiting - (coming and coming[path] or 0)
      room = math.min(room or left, left)
    end
    path, most = holder_of(path), nil
  until path == ''
  return room
end
