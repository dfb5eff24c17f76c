--- Put files into their queues, unless they were put there before or the limit is used up.
--- Each is its digest (or nothing, to be taken as new), lane, id, JSON, path and size; the reply
--- has 1 for each that is in line now, 0 for one that was before, 2 for one that has to wait, and
--- the milliseconds after which it is worth asking again.
--- keys  seen seen_before rate_limit events wake lanes...
--- args  now events_cap remember_ms rate burst jobs...
--- uses  instant_ms tell rouse turn_page
now, remember_ms, rate = instant_ms(now), tonumber(remember_ms), tonumber(rate)
turn_page(seen, seen_before, remember_ms)

-- A token is counted as a thousand parts, so that a millisecond brings whole ones.
local full, level = burst * 1000, 0
if rate > 0 then
  local kept = redis.call('HMGET', rate_limit, 'parts', 'at')
  local before = tonumber(kept[2] or now)
  now = math.max(now, before)
  level = math.min(full, tonumber(kept[1] or full) + (now - before) * rate)
end

local codes, ready, added, refused = {}, {}, 0, 0
for at = jobs, #ARGV, 6 do
  local digest, lane, id = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local is_known = digest ~= '' and (redis.call('SISMEMBER', seen, digest) == 1
    or redis.call('SISMEMBER', seen_before, digest) == 1)
  if is_known then
    redis.call('SADD', seen, digest)
    codes[#codes + 1] = 0
  elseif rate > 0 and level < 1000 then
    codes[#codes + 1] = 2
    refused = refused + 1
  else
    level = level - 1000
    if digest ~= '' then redis.call('SADD', seen, digest) end
    codes[#codes + 1] = 1
    added = added + 1
    ready[lane] = ready[lane] or {}
    ready[lane][#ready[lane] + 1] = ARGV[at + 3]
    tell(events, now, KEYS[lanes + 2 * (lane - 1)], 'waiting', id, 1, '',
      'path', ARGV[at + 4], 'size', ARGV[at + 5])
  end
end
for lane, payloads in pairs(ready) do
  for first = 1, #payloads, 1000 do
    redis.call('LPUSH', KEYS[lanes + 2 * (lane - 1)],
      unpack(payloads, first, math.min(first + 999, #payloads)))
  end
end
turn_page(seen, seen_before, remember_ms)
local wait_ms = 0
if rate > 0 then
  if added > 0 then
    redis.call('HSET', rate_limit, 'parts', string.format('%.0f', level),
      'at', string.format('%.0f', now))
    -- A bucket that is full again is the same as none.
    redis.call('PEXPIRE', rate_limit, math.max(1, math.ceil((full - level) / rate)))
  end
  -- Worth asking again when half of the bucket has filled, so that nobody asks for every token.
  local wanted = math.min(refused * 1000, math.max(1000, full / 2))
  if refused > 0 then wait_ms = math.max(1, math.ceil((wanted - level) / rate)) end
end
if added > 0 then
  rouse(wake)
  redis.call('XTRIM', events, 'MAXLEN', '~', events_cap)
end
return { codes, wait_ms }
