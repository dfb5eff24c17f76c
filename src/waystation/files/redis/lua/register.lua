--- Register a worker whose list holds jobs.
--- keys  processing workers
--- args  worker
if redis.call('LLEN', processing) == 0 then return 0 end
return redis.call('SADD', workers, worker)
