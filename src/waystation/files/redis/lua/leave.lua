--- Unregister a worker; how many jobs it still holds, which may be taken back at once.
--- keys  heartbeat workers processing
--- args  worker -> int
redis.call('DEL', heartbeat)
local held = redis.call('LLEN', processing)
if held == 0 then redis.call('SREM', workers, worker) end
return held
