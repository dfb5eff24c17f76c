--- Let a parent wait again for a child that is to be run once more.
local function return_to_parent(job, state, parent)
  if not parent or redis.call('EXISTS', parent) == 0 then return end
  local was_counted
  if state == 'completed' then
    was_counted = redis.call('HDEL', parent .. ':processed', job) == 1
  else
    was_counted = redis.call('ZREM', parent .. ':unsuccessful', job) == 1
      or redis.call('HDEL', parent .. ':failed', job) == 1
  end
  if was_counted then redis.call('SADD', parent .. ':dependencies', job) end
end
