--- Set or lift the limits of a type.
--- keys  limits wake
--- args  namespace queue config
--- uses  line_at wake_for
if config == '' then
  redis.call('HDEL', limits, queue)
else
  redis.call('HSET', limits, queue, config)
end
wake_for(line_at(namespace), queue)
return 1
