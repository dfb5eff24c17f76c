--- Put back what a worker that takes no more jobs may have taken from the others: the marker of
--- those that wait, and when the next delayed one is due. 1 when there are any that wait.
--- keys  wait active prioritized delayed marker meta grouped absent
--- args  -> int
--- uses  mark_ready mark_delayed
mark_delayed({ delayed = delayed, marker = marker })
if redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) + redis.call('ZCARD', grouped) == 0 then return 0 end
mark_ready({ active = active, marker = marker, meta = meta })
return 1
