--- Let workers take from a queue again; 0 when they did.
--- keys  paused wake
--- args  queue -> bool
--- uses  wake_worker must_hold
must_hold('LLEN', wake)
local gone = redis.call('SREM', paused, queue)
if gone == 1 then wake_worker(wake) end
return gone
