--- Let a job stand for others like it, for as long as its rule says.
local function own_deduplication(key, id, rule)
  -- Whoever keeps the last of the others holds the key until it has finished.
  local ttl = not rule.keepLastIfActive and tonumber(rule.ttl)
  if ttl and ttl > 0 then
    redis.call('SET', key, id, 'PX', string.format('%.0f', ttl))
  else
    redis.call('SET', key, id)
  end
end
