--- Let dead jobs wait again with fresh attempts; each is its id and data. How many did.
--- One that never ran, because another will not complete, waits for those it depends on as before,
--- and stays dead while one of them is unknown.
--- keys  deadletter meta routes events
--- keys  awaited delayed ended heads held places serial signatures stalls waiting wake unmoved
--- args  namespace now:str|int jobs:str|bytes... -> int
--- uses  keys_at instant_ms emit_event index_foreign push_waiting route_of queue_of
--- uses  remove_dead_letters check_keys hold text_of must_hold
local line = keys_at(namespace)
now = instant_ms(now)
check_keys(line)
index_foreign(line, now)

-- What a job still waits for; nil when one of them can never complete.
local function awaited_by(id, data)
  local _, letter = pcall(cjson.decode, redis.call('HGET', meta, id) or '')
  if type(letter) ~= 'table' or letter.reason ~= 'DEPENDENCY' then return {} end
  local names = cjson.decode(data).dependsOn
  if type(names) ~= 'table' then return {} end
  for _, other in ipairs(names) do
    must_hold('SCARD', line.dependents .. other)
    if text_of(line.status .. other) ~= 'completed' and redis.call('EXISTS', line.data .. other) == 0 then
      return nil
    end
  end
  return names
end

local wanted, again = {}, {}
for at = jobs, #ARGV, 2 do
  -- What cannot be read cannot be run, so it stays where it is.
  local id, data = ARGV[at], ARGV[at + 1]
  local route, names = route_of(line, id), awaited_by(id, data)
  if route and names then
    wanted[id] = true
    again[#again + 1] = { id = id, data = data, route = route, names = names }
  end
end
local found, count = remove_dead_letters(line, wanted), 0
for _, job in ipairs(again) do
  if found[job.id] then
    local id, queue = job.id, queue_of(string.sub(job.route, 2))
    found[id] = nil
    redis.call('HDEL', meta, id)
    redis.call('SET', line.data .. id, job.data)
    emit_event(line, now, 'redriven', queue, id)
    if hold(line, now, id, job.route, job.names, 0) == 0 and push_waiting(line, id, job.route) then
      emit_event(line, now, 'waiting', queue, id, 'prev', 'dead')
    end
    count = count + 1
  end
end
return count
