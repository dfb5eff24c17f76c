--- Hand out nothing until the queue is resumed; what is active goes on. So many ids are set aside in a
--- call; the reply is how many are left.
--- keys  meta wait paused marker events absent
--- args  by most:int -> int
--- uses  set_aside
-- First a write that takes no memory: after it a full server lets the others through.
redis.call('DEL', marker)
redis.call('HSET', meta, 'paused', 1)
local left = set_aside({ wait = wait, paused = paused }, redis.call('HGET', meta, 'version'),
  tonumber(most))
if left > 0 then return left end
if by == '' then
  redis.call('XADD', events, '*', 'event', 'paused')
else
  redis.call('XADD', events, '*', 'event', 'paused', 'by', by)
end
return 0
