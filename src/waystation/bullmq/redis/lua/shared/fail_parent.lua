--- Doom a parent to fail when a worker next picks it up, which is at once if it only waits.
--- uses  release_parent
local function fail_parent(parents, id, child_key, now)
  local job = parents.base .. id
  if redis.call('EXISTS', job) == 0 or redis.call('ZSCORE', parents.failed, id) then return end
  redis.call('HSET', job, 'defa', 'child ' .. child_key .. ' failed')
  if redis.call('ZREM', parents.delayed, id) == 1 then
    redis.call('HSET', job, 'delay', 0)
    redis.call('ZADD', parents['waiting-children'], now, id)
  end
  release_parent(parents, id, now)
end
