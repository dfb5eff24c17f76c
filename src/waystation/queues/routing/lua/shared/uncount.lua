--- Give a place under the concurrency limit of a type back, and say so to whoever waits for it.
--- uses  wake
local function uncount(line, queue)
  if redis.call('DECR', line.concurrent .. queue) <= 0 then
    redis.call('DEL', line.concurrent .. queue)
  end
  wake(line, queue)
end
