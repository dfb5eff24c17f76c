--- Let dead jobs wait again with fresh attempts; each is its id and data. How many did.
--- keys  deadletter meta routes events
--- args  namespace now jobs...
--- uses  keys_at instant_ms emit_event index_foreign push_waiting route_of queue_of
--- uses  remove_dead_letters check_keys
local line = keys_at(namespace)
now = instant_ms(now)
check_keys(line)
index_foreign(line, now)
local wanted, again = {}, {}
for at = jobs, #ARGV, 2 do
  -- What cannot be read cannot be run, so it stays where it is.
  local route = route_of(line, ARGV[at])
  if route then
    wanted[ARGV[at]] = true
    again[#again + 1] = { id = ARGV[at], data = ARGV[at + 1], route = route }
  end
end
local found, count = remove_dead_letters(line, wanted), 0
for _, job in ipairs(again) do
  if found[job.id] then
    local id, queue = job.id, queue_of(string.sub(job.route, 2))
    found[id] = nil
    redis.call('HDEL', meta, id)
    redis.call('SET', line.data .. id, job.data)
    push_waiting(line, id, job.route)
    emit_event(line, now, 'redriven', queue, id)
    emit_event(line, now, 'waiting', queue, id, 'prev', 'dead')
    count = count + 1
  end
end
return count
