--- Set or lift the limits of a type.
--- keys  limits wake unmoved
--- args  namespace queue config:str|bytes -> bool
--- uses  keys_at wake_for
if config == '' then
  redis.call('HDEL', limits, queue)
else
  redis.call('HSET', limits, queue, config)
end
wake_for(keys_at(namespace), queue)
return 1
