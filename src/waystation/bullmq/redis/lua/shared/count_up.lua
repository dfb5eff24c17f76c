--- Count one more in a field of a job; what stands there may be no number, and counts as none.
local function count_up(job, field)
  local count = redis.pcall('HINCRBY', job, field, 1)
  if type(count) == 'number' then return count end
  redis.call('HSET', job, field, 1)
  return 1
end
