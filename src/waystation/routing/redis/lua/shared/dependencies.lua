--- Let a job wait for others, as far as they have not completed; for how many it does.
--- uses  text_of whole emit_event queue_of
local function hold(line, now, id, route, names, delay)
  local open, named = {}, {}
  for _, other in ipairs(names) do
    -- One that is named twice ends once.
    if not named[other] and text_of(line.status .. other) ~= 'completed' then
      open[#open + 1] = other
    end
    named[other] = true
  end
  if #open == 0 then return 0 end
  -- A job of the same id may have waited before; the number tells the two apart.
  local number = whole(redis.call('INCR', line.serial))
  for _, other in ipairs(open) do
    redis.call('SADD', line.dependents .. other, number .. ' ' .. id)
    redis.call('SADD', line.awaited, other)
  end
  redis.call('HSET', line.held, id, #open .. ' ' .. whole(delay) .. ' ' .. number)
  redis.call('SET', line.status .. id, 'delayed')
  emit_event(line, now, 'waiting-children', queue_of(string.sub(route, 2)), id, 'count', #open)
  return #open
end

--- The number of others that a job waits for, its delay after that, and the number under which it
--- waits for them; nil when it waits for none.
local function held_of(line, id)
  return string.match(redis.call('HGET', line.held, id) or '', '^(%d+) (%d+) ?(%d*)$')
end

--- Note that a job has ended, for those that wait for it: `why` says why it will never complete,
--- and is empty when it has.
--- uses  whole
local function note_end(line, id, why)
  redis.call('SREM', line.awaited, id)
  if redis.call('EXISTS', line.dependents .. id) == 0 then return end
  -- Under a name of its own, so that it lets nobody go who waits for a new job of this id.
  local number = whole(redis.call('INCR', line.serial))
  redis.call('RENAME', line.dependents .. id, line.ended .. ':' .. number)
  redis.call('RPUSH', line.ended, cjson.encode({ number, id, why }))
end

--- Go on with jobs that waited for one that has ended, so many in one call: they may run when they
--- wait for no other, and are dead letters when it will never complete. How many there were.
--- uses  held_of note_end dead_letter let_go queue_of
local function release_dependents(line, now, most)
  local function bury(dependent, ended, why)
    redis.call('HDEL', line.held, dependent)
    local route = redis.call('HGET', line.routes, dependent) or 'N[""'
    local sentence = 'job ' .. ended .. ' ' .. why
    dead_letter(line, now, dependent, queue_of(string.sub(route, 2)), cjson.encode({
      reason = 'DEPENDENCY', attempts = 0, at = now,
      error = { name = 'Dependency', message = sentence },
    }), '', 0)
    local is_told = string.find(why, 'because', 1, true)
    note_end(line, dependent, is_told and why or 'is a dead letter, because ' .. sentence)
  end

  local done = 0
  while done < most do
    local entry = redis.call('LINDEX', line.ended, 0)
    if not entry then break end
    local read, ended = pcall(cjson.decode, entry)
    local members = line.ended .. ':' .. (read and ended[1] or '')
    local some = redis.pcall('SPOP', members, most - done)
    -- Another client has written there: there is nobody to go on with.
    if some.err then some = {} end
    table.sort(some)
    for _, member in ipairs(some) do
      local number, dependent = string.match(member, '^(%d+) (.*)$')
      if not number then number, dependent = '', member end
      local count, delay, current = held_of(line, dependent)
      if count and number == current then
        if ended[3] ~= '' then
          bury(dependent, ended[2], ended[3])
        elseif tonumber(count) > 1 then
          redis.call('HSET', line.held, dependent, (count - 1) .. ' ' .. delay .. ' ' .. number)
        else
          let_go(line, now, dependent, tonumber(delay))
        end
      end
    end
    done = done + math.max(#some, 1)
    if #some == 0 or redis.call('EXISTS', members) == 0 then redis.call('LPOP', line.ended) end
  end
  return done
end

--- Let a job that waits for no other any more run, or wait for its time.
--- uses  route_of push_waiting dead_letter_unreadable emit_event wake_for whole queue_of
local function let_go(line, now, id, delay)
  redis.call('HDEL', line.held, id)
  local route, why = route_of(line, id)
  if not route then return dead_letter_unreadable(line, now, id, why) end
  local queue = queue_of(string.sub(route, 2))
  if delay > 0 then
    redis.call('ZADD', line.delayed, whole(now + delay), id)
    emit_event(line, now, 'delayed', queue, id, 'due', whole(now + delay), 'kind', 'delayed')
    wake_for(line, '')
  elseif push_waiting(line, id, route) then
    emit_event(line, now, 'waiting', queue, id, 'prev', 'held')
  end
end
