--- Put back what a worker that takes no more jobs may have taken from the others: the marker of
--- those that wait, and when the next delayed one is due. 1 when there are any that wait.
--- keys  wait active prioritized delayed marker meta grouped groups_marker absent
--- args  -> int
--- uses  mark_ready mark_delayed
mark_delayed({ delayed = delayed, marker = marker })
local has_grouped = redis.call('ZCARD', grouped) > 0
if has_grouped then redis.call('ZADD', groups_marker, 0, '0') end
if not has_grouped and redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) == 0 then return 0 end
mark_ready({ active = active, marker = marker, meta = meta })
return 1
