--- Set or lift the limits of a type.
--- keys  limits wake
--- args  queue config
if config == '' then
  redis.call('HDEL', limits, queue)
else
  redis.call('HSET', limits, queue, config)
end
redis.call('XADD', wake, 'MAXLEN', '~', 64, '*', 'queue', queue)
return 1
