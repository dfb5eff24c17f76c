--- Renew leases; the reply has the places, from 1, of those that are lost.
--- keys  claims leases stopping stopped
--- keys  unmoved
--- args  namespace now:str|int lease_ms:int worker held... -> list[int]
--- uses  keys_at instant_ms makes_room whole tell_holder
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
    -- A handler that was told to stop and has not ended yet still takes a place under its limit.
    local name = token .. ' ' .. id
    local told, queue = string.match(redis.call('HGET', stopping, name) or '', '^%S+ (%d+) (.*)$')
    if told then
      redis.call('HSET', stopping, name, deadline .. ' ' .. told + 1 .. ' ' .. queue)
      tell_holder(line, id, token)
    end
    if not told or told ~= '0' then lost[#lost + 1] = place end
  end
end
if #deadlines > 0 then redis.call('ZADD', leases, unpack(deadlines)) end
return lost
