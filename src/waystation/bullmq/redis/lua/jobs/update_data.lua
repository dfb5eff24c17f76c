--- Give a job other data: 0, or -1 when it is gone.
--- keys  job
--- args  data:bytes -> int
if redis.call('EXISTS', job) == 0 then return -1 end
redis.call('HSET', job, 'data', data)
return 0
