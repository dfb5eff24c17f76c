--- Let jobs go on that waited for this one, when it was the last they waited for.
--- uses  push_waiting tell whole queue_of
local function release_dependents(line, now, id)
  redis.call('SREM', line.awaited, id)
  for _, dependent in ipairs(redis.pcall('SMEMBERS', line.dependents .. id)) do
    local held = redis.call('HGET', line.held, dependent)
    if held then
      local count, delay = string.match(held, '^(%d+) (%d+)$')
      if tonumber(count) > 1 then
        redis.call('HSET', line.held, dependent, (count - 1) .. ' ' .. delay)
      else
        redis.call('HDEL', line.held, dependent)
        local route = redis.call('HGET', line.routes, dependent)
        if tonumber(delay) > 0 then
          redis.call('ZADD', line.delayed, whole(now + delay), dependent)
        else
          if push_waiting(line, dependent, route) then
            tell(line, now, 'waiting', queue_of(string.sub(route, 2)), dependent, 'prev', 'held')
          end
        end
      end
    end
  end
  redis.call('DEL', line.dependents .. id)
end
