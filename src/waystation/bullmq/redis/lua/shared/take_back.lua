--- Take a job back from the worker that holds this token; 0, or why not.
--- `held` is the token of its holder, if that has been read.
local function take_back(queue, id, token, held)
  local job = queue.base .. id
  if held == nil then held = redis.call('GET', job .. ':lock') end
  if redis.call('HLEN', job) == 0 then return -1 end
  if held ~= token then return held and -6 or -2 end
  if redis.call('LREM', queue.active, -1, id) == 0 then return -3 end
  redis.call('DEL', job .. ':lock')
  redis.call('SREM', queue.stalled, id)
  return 0
end
