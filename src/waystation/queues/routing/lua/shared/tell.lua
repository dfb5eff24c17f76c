--- Put what happened into the stream, in the envelope that all lines share.
--- uses  whole
local function tell(line, now, event, queue, id, ...)
  if not line.most then
    -- A script has one instant, and tells up to hundreds of things.
    line.most, line.told_at = redis.call('GET', line.cap) or '10000', whole(now)
  end
  redis.call('XADD', line.events, 'MAXLEN', '~', line.most, '*', 'v', '1', 'line', 'routing',
    'queue', queue, 'event', event, 'at', line.told_at, 'subject', id, ...)
end
