--- Count a newcomer for the networks they come from, the narrowest first; milliseconds to wait if one is full.
--- uses  format_int
-- Each wider network may bring four times as many: one line, one customer, one company or town.
local function count_newcomer(networks, us, id, most)
  local now, since = us / 1000, format_int(us / 1000 - 60000)
  for _, recent in ipairs(networks) do
    redis.call('ZREMRANGEBYSCORE', recent, '-inf', since)
    local many = redis.call('ZCARD', recent)
    if many >= most then
      local oldest = redis.call('ZRANGE', recent, many - most, many - most, 'WITHSCORES')[2]
      return math.max(1, math.floor(oldest + 60000 - now))
    end
    most = most * 4
  end
  for _, recent in ipairs(networks) do
    redis.call('ZADD', recent, format_int(now), id)
    redis.call('EXPIRE', recent, 60)
  end
end
