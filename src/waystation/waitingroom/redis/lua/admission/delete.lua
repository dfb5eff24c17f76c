--- Delete a room with everything that is kept of it, if nobody is in it; how many people are.
--- keys  meta epoch positions prequeue recovered admitted missed sessions theirs...
--- args  -> int
local people = redis.call('SCARD', sessions)
for _, set in ipairs({ positions, prequeue, recovered, admitted, missed }) do
  people = people + redis.call('ZCARD', set)
end
if people > 0 then return people end
-- A room of the same name must not take the tokens of this one, of which none lives longer.
local next = (tonumber(redis.call('HGET', meta, 'epoch')) or 1) + 1
if redis.call('EXISTS', meta) == 1 then redis.call('SET', epoch, next, 'EX', 31708800) end
redis.call('UNLINK', meta, unpack(KEYS, theirs))
return 0
