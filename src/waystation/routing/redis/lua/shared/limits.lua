--- What is known about how many jobs of a type may start.
--- uses  limit_of
local function room_for(line, queue)
  if redis.call('SISMEMBER', line.paused, queue) == 1 then return { paused = true } end
  local config = redis.call('HGET', line.limits, queue)
  local read, limit = pcall(cjson.decode, config or '')
  return { limit = read and limit_of(limit) or nil }
end

--- The limit that binds jobs of a signature: that of their type, or else the one they bring along.
--- uses  limit_of
local function limit_for(room, signature)
  if room.limit or string.sub(signature, -2) ~= '}]' then return room.limit end
  return limit_of(cjson.decode(signature)[8])
end

--- The numbers of a limit that has been read from JSON; nil when it says nothing.
local function limit_of(given)
  if type(given) ~= 'table' then return nil end
  local most, a_minute = tonumber(given.maxConcurrent), tonumber(given.maxPerMinute)
  if not most and not a_minute then return nil end
  return { most = most, a_minute = a_minute }
end

--- How many more jobs may start, and how long a full minute still lasts.
--- uses  text_of number_or
local function left_in(line, queue, room, limit)
  if room.paused then return 0, 0 end
  if not limit then return math.huge, 0 end
  local left = math.huge
  if limit.most then
    room.running = room.running or number_or(0, text_of(line.concurrent .. queue))
    left = limit.most - room.running
  end
  if limit.a_minute then
    room.started = room.started or number_or(0, text_of(line.minute .. queue))
    local now = limit.a_minute - room.started
    if now <= 0 then
      local pause_ms = redis.call('PTTL', line.minute .. queue)
      if pause_ms == -1 then
        -- Whoever counted it has died before it could say when the minute ends.
        pause_ms = 60000
        redis.call('PEXPIRE', line.minute .. queue, pause_ms)
      end
      return 0, math.max(pause_ms, 1)
    end
    left = math.min(left, now)
  end
  return left, 0
end

--- Give a place under the concurrency limit of a type back, and wake workers for it.
--- uses  wake_for raise_count
local function uncount(line, queue)
  if raise_count(line.concurrent .. queue, -1) <= 0 then
    redis.call('DEL', line.concurrent .. queue)
  end
  wake_for(line, queue)
end

--- What keeps jobs of a signature from running: how many of these workers fit, what the nearest one
--- lacks and who that is, whether the type is paused, whether a limit is used up and until when,
--- and the two limits with how much of each is used.
--- uses  lacking queue_of room_for limit_for left_in whole
local function obstacles(line, now, signature, workers)
  local wanted, fit, nearest, name, distance = cjson.decode(signature), 0, nil, '', math.huge
  for _, worker in ipairs(workers) do
    local lacks, count = lacking(wanted, worker), 0
    for _, category in ipairs(lacks) do count = count + #category[2] end
    if count == 0 then
      fit = fit + 1
    elseif count < distance then
      nearest, name, distance = lacks, worker.server, count
    end
  end
  if fit > 0 or not nearest then nearest, name = {}, '' end
  local lacks = #nearest > 0 and cjson.encode(nearest) or '[]'

  local queue = queue_of(signature)
  local room = room_for(line, queue)
  local limit = limit_for(room, signature) or {}
  local left, pause_ms = left_in(line, queue, room, limit)
  local function digits(number) return number and whole(number) or '' end
  return {
    fit, lacks, name, room.paused and 1 or 0, left > 0 and 0 or 1,
    pause_ms > 0 and whole(now + pause_ms) or '',
    digits(limit.most), digits(room.running), digits(limit.a_minute), digits(room.started),
  }
end
