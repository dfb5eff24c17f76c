--- Register a worker by the list that it holds, so that the reaper looks at it.
--- keys  processing workers
--- args  worker
if redis.call('LLEN', processing) == 0 then return 0 end
return redis.call('SADD', workers, worker)
