--- Let dead jobs wait again with fresh attempts; each is its id and data. How many did.
--- keys  deadletter meta routes events
--- args  namespace now jobs...
--- uses  line_at instant_ms tell adopt push_waiting route_of queue_of drop_dead check_line
local line = line_at(namespace)
now = instant_ms(now)
check_line(line)
adopt(line, now)
local wanted, again = {}, {}
for at = jobs, #ARGV, 2 do
  -- What cannot be read cannot be run, so it stays where it is.
  local route = route_of(line, ARGV[at])
  if route then
    wanted[ARGV[at]] = true
    again[#again + 1] = { id = ARGV[at], data = ARGV[at + 1], route = route }
  end
end
local found, count = drop_dead(line, wanted), 0
for _, job in ipairs(again) do
  if found[job.id] then
    local id, queue = job.id, queue_of(string.sub(job.route, 2))
    found[id] = nil
    redis.call('HDEL', meta, id)
    redis.call('SET', line.data .. id, job.data)
    push_waiting(line, id, job.route)
    tell(line, now, 'redriven', queue, id)
    tell(line, now, 'waiting', queue, id, 'prev', 'dead')
    count = count + 1
  end
end
return count
