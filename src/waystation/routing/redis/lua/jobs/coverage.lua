--- Waiting jobs by signature, compared with what these workers offer: for each signature its first
--- id, how many wait, and what keeps them from running.
--- keys  waiting places heads signatures serial routes claims wake events deadletter meta
--- keys  awaited delayed ended stalls unmoved
--- args  namespace now:str|int profiles:bytes first:int count:int -> list[list[Any]]
--- uses  keys_at instant_ms index_foreign obstacles check_keys
local line = keys_at(namespace)
now = instant_ms(now)
check_keys(line)
index_foreign(line, now)
local workers = cjson.decode(profiles)
local rows = {}
for _, signature in ipairs(redis.call('ZRANGE', heads, first, first + count - 1)) do
  rows[#rows + 1] = {
    signature, redis.call('ZRANGE', line.ids .. signature, 0, 0)[1] or '',
    redis.call('ZCARD', line.ids .. signature), obstacles(line, now, signature, workers),
  }
end
return rows
