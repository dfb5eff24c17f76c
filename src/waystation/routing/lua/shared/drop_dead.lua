--- Take ids out of the dead letter list, in one walk however many they are; those that were there.
local function drop_dead(line, wanted)
  local kept, found = {}, {}
  local all = redis.call('LRANGE', line.deadletter, 0, -1)
  for _, id in ipairs(all) do
    if wanted[id] then found[id] = true else kept[#kept + 1] = id end
  end
  if #kept == #all then return found end
  redis.call('DEL', line.deadletter)
  for first = 1, #kept, 1000 do
    redis.call('RPUSH', line.deadletter, unpack(kept, first, math.min(first + 999, #kept)))
  end
  return found
end
