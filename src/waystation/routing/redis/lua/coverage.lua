--- What waits, by signature, beside what the workers given offer; for each signature its turn's
--- first id, how many wait, and what keeps them from running.
--- keys  waiting places heads signatures serial routes claims wake events deadletter meta
--- args  namespace now profiles first count
--- uses  line_at instant_ms adopt obstacles check_line
local line = line_at(namespace)
now = instant_ms(now)
check_line(line)
adopt(line, now)
local workers = cjson.decode(profiles)
local rows = {}
for _, signature in ipairs(redis.call('ZRANGE', heads, first, first + count - 1)) do
  rows[#rows + 1] = {
    signature, redis.call('ZRANGE', line.ids .. signature, 0, 0)[1] or '',
    redis.call('ZCARD', line.ids .. signature), obstacles(line, now, signature, workers),
  }
end
return rows
