--- Wake another worker when jobs wait: whoever leaves may have taken their marker.
--- keys  wait active prioritized delayed marker meta
--- args  stays
--- uses  mark_ready mark_delayed
-- BullMQ's workers do not put back when the next job is due as they close, so ours do not, either.
if stays == '1' then mark_delayed({ delayed = delayed, marker = marker }) end
if redis.call('LLEN', wait) + redis.call('ZCARD', prioritized) == 0 then return 0 end
mark_ready({ active = active, marker = marker, meta = meta })
return 1
