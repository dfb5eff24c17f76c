--- Give a place under the concurrency limit of a type back, and say so to whoever waits for it.
--- uses  wake_for raise_count
local function uncount(line, queue)
  if raise_count(line.concurrent .. queue, -1) <= 0 then
    redis.call('DEL', line.concurrent .. queue)
  end
  wake_for(line, queue)
end
