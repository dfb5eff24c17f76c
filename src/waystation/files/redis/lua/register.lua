--- Register a worker whose list holds jobs; 1 when it was not registered before.
--- keys  processing workers
--- args  worker -> bool
if redis.call('LLEN', processing) == 0 then return 0 end
return redis.call('SADD', workers, worker)
