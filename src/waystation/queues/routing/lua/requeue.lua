--- Let dead jobs wait again with fresh attempts; each is its id and data. How many did.
--- keys  deadletter meta routes events
--- args  namespace now jobs...
--- uses  line_at instant_ms tell adopt push_waiting route_of queue_of drop_dead
local line = line_at(namespace)
now = instant_ms(now)
adopt(line, now)
local wanted, kept = {}, {}
for at = jobs, #ARGV, 2 do
  local id = ARGV[at]
  -- What cannot be read cannot be run, so it stays where it is.
  local route = redis.call('HEXISTS', meta, id) == 1 and route_of(line, id)
  if route then wanted[id], kept[#kept + 1] = true, { id, ARGV[at + 1], route } end
end
drop_dead(line, wanted)
for _, job in ipairs(kept) do
  local id, queue = job[1], queue_of(string.sub(job[3], 2))
  redis.call('HDEL', meta, id)
  redis.call('SET', line.data .. id, job[2])
  push_waiting(line, id, job[3])
  tell(line, now, 'redriven', queue, id)
  tell(line, now, 'waiting', queue, id, 'prev', 'dead')
end
return #kept
