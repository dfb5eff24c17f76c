--- Put files into their queues, unless they were put there before.
--- Each is its digest (or nothing, to be taken as new), lane, id, JSON, path and size.
--- keys  seen seen_before events wake lanes...
--- args  now events_cap remember_ms jobs...
--- uses  instant_ms tell rouse turn_page
now = instant_ms(now)
remember_ms = tonumber(remember_ms)
turn_page(seen, seen_before, remember_ms)
local codes, ready, any = {}, {}, false
for at = jobs, #ARGV, 6 do
  local digest, lane, id = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2]
  local is_new = digest == '' or (redis.call('SADD', seen, digest) == 1
    and redis.call('SISMEMBER', seen_before, digest) == 0)
  codes[#codes + 1] = is_new and 1 or 0
  if is_new then
    ready[lane] = ready[lane] or {}
    ready[lane][#ready[lane] + 1] = ARGV[at + 3]
    tell(events, now, KEYS[lanes + 2 * (lane - 1)], 'waiting', id, 1, '',
      'path', ARGV[at + 4], 'size', ARGV[at + 5])
    any = true
  end
end
for lane, payloads in pairs(ready) do
  for first = 1, #payloads, 1000 do
    redis.call('LPUSH', KEYS[lanes + 2 * (lane - 1)],
      unpack(payloads, first, math.min(first + 999, #payloads)))
  end
end
turn_page(seen, seen_before, remember_ms)
if any then
  rouse(wake)
  redis.call('XTRIM', events, 'MAXLEN', '~', events_cap)
end
return codes
