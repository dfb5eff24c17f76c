--- Hand out nothing until the queue is resumed; what is active goes on.
--- keys  meta marker events
redis.call('HSET', meta, 'paused', 1)
redis.call('DEL', marker)
redis.call('XADD', events, '*', 'event', 'paused')
return 1
