--- Unregister a worker; jobs that it still holds may be taken back at once.
--- keys  heartbeat workers processing
--- args  worker
redis.call('DEL', heartbeat)
local held = redis.call('LLEN', processing)
if held == 0 then redis.call('SREM', workers, worker) end
return held
