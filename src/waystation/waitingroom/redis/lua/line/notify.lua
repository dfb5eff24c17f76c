--- Remember how to reach somebody when it is their turn, if they are still here.
--- keys  position
--- args  proof handle -> word
local known = redis.call('HGET', position, 'proof')
if not known then return 'gone' end
if known ~= proof then return 'forbidden' end
if handle == '' then redis.call('HDEL', position, 'notify')
else redis.call('HSET', position, 'notify', handle) end
return 'noted'
