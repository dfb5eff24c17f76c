--- Let dead jobs wait again with fresh attempts; each is its id and data. How many did.
--- keys  deadletter meta routes events
--- args  namespace now jobs...
--- uses  line_at instant_ms tell adopt push_waiting route_of queue_of drop_dead
local line = line_at(namespace)
now = instant_ms(now)
adopt(line, now)
local wanted = {}
for at = jobs, #ARGV, 2 do wanted[ARGV[at]] = true end
drop_dead(line, wanted)
local count = 0
for at = jobs, #ARGV, 2 do
  local id = ARGV[at]
  if redis.call('HDEL', meta, id) == 1 then
    redis.call('SET', line.data .. id, ARGV[at + 1])
    local route = route_of(line, id)
    push_waiting(line, id, route)
    tell(line, now, 'redriven', queue_of(string.sub(route, 2)), id)
    tell(line, now, 'waiting', queue_of(string.sub(route, 2)), id, 'prev', 'dead')
    count = count + 1
  end
end
return count
