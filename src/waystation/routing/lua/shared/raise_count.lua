--- Add to a count of running or started jobs; one that is no number begins anew.
local function raise_count(key, by)
  local count = redis.pcall('INCRBY', key, by)
  if type(count) == 'number' then return count end
  redis.call('SET', key, math.max(by, 0))
  return by
end
