--- Hand out nothing until the queue is resumed; what is active goes on.
--- keys  meta wait paused marker events
--- args  by
--- uses  set_aside
redis.call('HSET', meta, 'paused', 1)
redis.call('DEL', marker)
set_aside({ wait = wait, paused = paused }, redis.call('HGET', meta, 'version'))
if by == '' then
  redis.call('XADD', events, '*', 'event', 'paused')
else
  redis.call('XADD', events, '*', 'event', 'paused', 'by', by)
end
return 1
