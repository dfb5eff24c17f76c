--- True when only a job's own handler can go on where it is: it has done steps, sleeps or waits, or
--- has something to undo, and has not ended. One that is merely tried again starts anew.
local function is_midway(job)
  local known = redis.pcall('HMGET', job, 'steps', 'given', 'parts', 'finishedOn')
  return (known[1] or known[2] or known[3]) and not known[4]
end

--- Forget what a job remembers of its steps before it runs anew: what they returned, its waits,
--- signals, output and children. One that failed goes on where it was, unless it was undone; one
--- that is not undone to the end goes on with that.
--- uses  forget_children
local function forget_steps(job, id, state)
  if state == 'failed' then
    local ends = redis.call('HMGET', job, 'step:undo *', 'step:undo -')
    if ends[2] then redis.call('HDEL', job, 'failing', 'undos', 'step:undo -', 'by:undo -') end
    if not ends[1] then return end
  end
  local gone = { 'steps', 'failing', 'undos', 'given', 'cut', 'waits', 'parts' }
  for _, field in ipairs(redis.call('HKEYS', job)) do
    local kind = string.match(field, '^(%a+):')
    if kind == 'step' or kind == 'by' or kind == 'wait' or kind == 'take' or kind == 'signal'
      or kind == 'signals' or kind == 'taken' or kind == 'call' then
      gone[#gone + 1] = field
    end
  end
  local many = 0
  for first = 1, #gone, 1000 do
    many = many + redis.call('HDEL', job, unpack(gone, first, math.min(first + 999, #gone)))
  end
  if many > 0 then redis.call('HINCRBY', job, 'gen', 1) end
  redis.call('DEL', job .. ':output')
  forget_children(job, id)
end

--- Let a job know nothing of the children that its handler has run; those of a flow stay.
local function forget_children(job, id)
  -- As the handler writes the ids of its children.
  local mark = ':' .. string.gsub(id, '[%%~:]', { ['%'] = '%25', ['~'] = '%7E', [':'] = '%3A' }) .. '~'
  for kind, commands in pairs({
    processed = { 'HKEYS', 'HDEL' }, failed = { 'HKEYS', 'HDEL' }, dependencies = { 'SMEMBERS', 'SREM' },
  }) do
    local key, gone = job .. ':' .. kind, {}
    -- What is of another type holds none of them, and is nothing that a retry should stop at.
    for _, child in ipairs(redis.pcall(commands[1], key)) do
      if string.find(child, mark, 1, true) then gone[#gone + 1] = child end
    end
    for first = 1, #gone, 1000 do
      redis.call(commands[2], key, unpack(gone, first, math.min(first + 999, #gone)))
    end
  end
end

--- Write the signals of one name that an earlier version kept as this one keeps them: each behind its number,
--- and the call that sent it apart. There the first had none, and the call stood in front.
local function renew_signals(job, signal)
  local prefix = 'signal:' .. signal
  for number = 1, tonumber(redis.call('HGET', job, 'signals:' .. signal)) or 1 do
    local value = redis.call('HGET', job, number > 1 and prefix .. '#' .. number or prefix)
    if value then
      redis.call('HSET', job, prefix .. '#' .. number, string.sub(value, 17),
        'call:' .. string.sub(value, 1, 16), number)
    end
  end
  redis.call('HDEL', job, prefix)
end
