--- Forget what a job remembers of its steps before it runs anew; one that failed
--- goes on where it was, unless everything was undone.
local function forget_steps(job, state)
  local known = redis.call('HMGET', job, 'steps', 'failing', 'parts', 'step:undo *')
  if not known[1] and not known[2] and not known[3] then return end
  if state == 'failed' and not known[4] then return end
  local gone = { 'steps', 'failing', 'undos', 'waits', 'parts' }
  for _, field in ipairs(redis.call('HKEYS', job)) do
    if string.find(field, '^step:') or string.find(field, '^wait:') or string.find(field, '^signals?:') then
      gone[#gone + 1] = field
    end
  end
  for first = 1, #gone, 1000 do
    redis.call('HDEL', job, unpack(gone, first, math.min(first + 999, #gone)))
  end
  redis.call('DEL', job .. ':output')
end
