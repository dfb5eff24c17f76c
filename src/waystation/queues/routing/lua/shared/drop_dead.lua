--- Take ids out of the dead letter list, in one walk however many they are.
local function drop_dead(line, wanted)
  local kept = {}
  local all = redis.call('LRANGE', line.deadletter, 0, -1)
  for _, id in ipairs(all) do
    if not wanted[id] then kept[#kept + 1] = id end
  end
  if #kept == #all then return end
  redis.call('DEL', line.deadletter)
  for first = 1, #kept, 1000 do
    redis.call('RPUSH', line.deadletter, unpack(kept, first, math.min(first + 999, #kept)))
  end
end
