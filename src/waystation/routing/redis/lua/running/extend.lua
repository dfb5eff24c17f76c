--- Renew leases; the reply has the places, from 1, of those that are lost.
--- keys  claims leases
--- args  namespace now lease_ms worker held...
--- uses  keys_at instant_ms makes_room whole
local line = keys_at(namespace)
local deadline = whole(instant_ms(now) + lease_ms)
local ids = {}
for at = held, #ARGV, 2 do ids[#ids + 1] = ARGV[at] end
local records, lost, deadlines = redis.call('HMGET', claims, unpack(ids)), {}, {}
makes_room('ZREM', leases)
for place, id in ipairs(ids) do
  local token = ARGV[held + 2 * place - 1]
  if records[place] and string.sub(records[place], 1, #token + 1) == token .. ' ' then
    redis.call('SET', line.lock .. id, worker, 'PX', lease_ms)
    deadlines[#deadlines + 1] = deadline
    deadlines[#deadlines + 1] = id
  else
    lost[#lost + 1] = place
  end
end
if #deadlines > 0 then redis.call('ZADD', leases, unpack(deadlines)) end
return lost
