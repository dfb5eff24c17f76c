--- Count something that the estimates learn from; what is old counts for less and less.
-- After so many ends of sessions all counts are halved, so that their quotients stay what they are.
local function learn(stays, field, by)
  redis.call('HINCRBYFLOAT', stays, field, by)
  redis.call('EXPIRE', stays, 604800)
  if field ~= 'ends' or tonumber(redis.call('HGET', stays, 'ends')) < 400 then return end
  local kept = redis.call('HGETALL', stays)
  for at = 1, #kept, 2 do
    if kept[at] ~= 'at' then redis.call('HSET', stays, kept[at], string.format('%.9g', kept[at + 1] / 2)) end
  end
end

--- The bucket of an age in seconds: four for each doubling.
local function age_bucket(seconds)
  return math.min(59, math.max(0, math.floor(4 * math.log(math.max(1, seconds)) / math.log(2))))
end

--- Learn from the end of a session how long one lasts.
--- uses  learn age_bucket
local function learn_end(stays, began, ends)
  if not began then return end
  learn(stays, 'd' .. age_bucket((ends - began) / 1000000), 1)
  learn(stays, 'ends', 1)
end

--- Learn how many seconds are spent inside at each age, and in line; once a second at most.
--- uses  format_int learn
local function learn_time(stays, sessions_began, now, waiting)
  local before = tonumber(redis.call('HGET', stays, 'at'))
  if before and now - before < 1000000 then return end
  redis.call('HSET', stays, 'at', format_int(now))
  redis.call('EXPIRE', stays, 604800)
  -- After a pause nobody knows who was there meanwhile.
  if not before or now - before > 10000000 then return end
  local seconds = (now - before) / 1000000
  if waiting > 0 then learn(stays, 'line', waiting * seconds) end
  local older = redis.call('ZCARD', sessions_began)
  for bucket = 0, 59 do
    if older == 0 then break end
    local since = format_int(now - 2 ^ ((bucket + 1) / 4) * 1000000)
    local next = bucket < 59 and redis.call('ZCOUNT', sessions_began, '-inf', since) or 0
    if older > next then learn(stays, 'e' .. bucket, (older - next) * seconds) end
    older = next
  end
end

--- Hold an estimate against how long its visitor waited.
--- uses  count
local function keep_promise(line, id, waited_s)
  local promised = redis.call('HGET', line.promises, id)
  if not promised then return end
  redis.call('HDEL', line.promises, id)
  local told = {}
  for each in string.gmatch(promised, '[^:]+') do told[#told + 1] = tonumber(each) end
  local p10, p50, p90, formula, people = unpack(told)
  if not people or formula <= 0 then return end
  count(line.stats, 'estimate_n', 1)
  -- A second either way is how exact the calls themselves are.
  if waited_s >= p10 - 1 and waited_s <= p90 + 1 then count(line.stats, 'estimate_in', 1) end
  count(line.stats, 'estimate_off', math.floor(100 * math.abs(p50 - waited_s) / math.max(1, waited_s) + 0.5))
  if waited_s < 5 then return end
  -- Chance evens out with the root of the people; what an operator changes must not count as chance.
  local off = math.log(waited_s / formula) * math.sqrt(people)
  local square = math.min(16, off * off)
  local squares = redis.call('HINCRBYFLOAT', line.ratios, 'squares', string.format('%.6f', square))
  local waits = redis.call('HINCRBY', line.ratios, 'waits', 1)
  redis.call('EXPIRE', line.ratios, 86400)
  -- What is old counts for less and less.
  if waits < 2000 then return end
  redis.call('HSET', line.ratios, 'waits', math.floor(waits / 2), 'squares', string.format('%.6f', squares / 2))
end
