--- Add files to their queues. Each is its digest (empty counts as new), lane, id, JSON, path and
--- size; the reply has 1 for each that was added, 0 for one that is known, 2 for one that has to
--- wait, and the milliseconds to wait. `rate` a second holds for all producers together, 0 for none.
--- keys  seen seen_before rate_limit events wake lanes...
--- args  now:str|int events_cap:int remember_ms:int rate:int burst:int
--- args  jobs:str|bytes|int... -> added
--- unchecked  rate_limit
--- uses  instant_ms check_lanes emit_event wake_worker rotate_seen
check_lanes(lanes)
now, remember_ms, rate = instant_ms(now), tonumber(remember_ms), tonumber(rate)
rotate_seen(seen, seen_before, remember_ms)
local context = { events = events, events_cap = events_cap, at = string.format('%.0f', now) }

-- A token is counted as a thousand parts, so that a millisecond brings whole ones.
local full, level = burst * 1000, 0
if rate > 0 then
  local kept = redis.pcall('HMGET', rate_limit, 'parts', 'at')
  if kept.err then
    -- Left by another kind of producer; the bucket starts full.
    redis.call('DEL', rate_limit)
    kept = {}
  end
  local before = tonumber(kept[2] or now)
  now = math.max(now, before)
  level = math.min(full, tonumber(kept[1] or full) + (now - before) * rate)
end

local codes, payloads, new, refused = {}, {}, {}, 0
local in_this_call = {}
for at = jobs, #ARGV, 6 do
  local digest, lane = ARGV[at], tonumber(ARGV[at + 1])
  local is_known = digest ~= '' and (in_this_call[digest]
    or redis.call('SISMEMBER', seen, digest) == 1
    or redis.call('SISMEMBER', seen_before, digest) == 1)
  if is_known then
    redis.call('SADD', seen, digest)
    codes[#codes + 1] = 0
  elseif rate > 0 and level < 1000 then
    codes[#codes + 1] = 2
    refused = refused + 1
  else
    level = level - 1000
    codes[#codes + 1] = 1
    in_this_call[digest] = true
    new[#new + 1] = at
    payloads[lane] = payloads[lane] or {}
    payloads[lane][#payloads[lane] + 1] = ARGV[at + 3]
  end
end
for lane, ready in pairs(payloads) do
  for first = 1, #ready, 1000 do
    redis.call('LPUSH', KEYS[lanes + 2 * (lane - 1)],
      unpack(ready, first, math.min(first + 999, #ready)))
  end
end
-- Only now, because a remembered file must be in its queue.
for _, at in ipairs(new) do
  if ARGV[at] ~= '' then redis.call('SADD', seen, ARGV[at]) end
  emit_event(context, KEYS[lanes + 2 * (ARGV[at + 1] - 1)], 'waiting', ARGV[at + 2], 1, '',
    'path', ARGV[at + 4], 'size', ARGV[at + 5])
end
rotate_seen(seen, seen_before, remember_ms)

local wait_ms = 0
if rate > 0 then
  if #new > 0 then
    redis.call('HSET', rate_limit, 'parts', string.format('%.0f', level),
      'at', string.format('%.0f', now))
    -- A full bucket is the same as none.
    redis.call('PEXPIRE', rate_limit, math.max(1, math.ceil((full - level) / rate)))
  end
  -- Until half of the bucket is full, so that producers do not ask for every token.
  local wanted = math.min(refused * 1000, math.max(1000, full / 2))
  if refused > 0 then wait_ms = math.max(1, math.ceil((wanted - level) / rate)) end
end
if #new > 0 then wake_worker(wake) end
return { codes, wait_ms }
