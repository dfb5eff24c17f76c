--- Hand out nothing until the queue is resumed; what is active goes on.
--- keys  meta wait paused marker events
--- uses  set_aside
redis.call('HSET', meta, 'paused', 1)
redis.call('DEL', marker)
set_aside({ wait = wait, paused = paused }, redis.call('HGET', meta, 'version'))
redis.call('XADD', events, '*', 'event', 'paused')
return 1
