--- Wake another worker when jobs wait: the one that leaves may have taken their marker.
--- keys  wait active prioritized marker meta
--- uses  mark_ready
if redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) == 0 then return 0 end
mark_ready({ active = active, marker = marker, meta = meta })
return 1
