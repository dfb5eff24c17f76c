--- Remember how to reach somebody when it is their turn, if they are still here.
--- keys  position
--- args  handle
if redis.call('EXISTS', position) == 0 then return 0 end
if handle == '' then redis.call('HDEL', position, 'notify')
else redis.call('HSET', position, 'notify', handle) end
return 1
