--- Set aside whatever waited for a job that will never be done, and what waited for those.
--- uses  bury queue_of whole tell
local function bury_dependents(line, now, id, why)
  local ends = { id }
  while #ends > 0 do
    local ended = table.remove(ends)
    redis.call('SREM', line.awaited, ended)
    for _, dependent in ipairs(redis.pcall('SMEMBERS', line.dependents .. ended)) do
      if redis.call('HDEL', line.held, dependent) == 1 then
        local route = redis.call('HGET', line.routes, dependent) or 'N[""'
        bury(line, now, dependent, queue_of(string.sub(route, 2)), cjson.encode({
          reason = 'DEPENDENCY', attempts = 0, at = now,
          error = { name = 'Dependency', message = 'job ' .. ended .. ' ' .. why },
        }), '', 0)
        ends[#ends + 1] = dependent
      end
    end
    redis.call('DEL', line.dependents .. ended)
  end
end
