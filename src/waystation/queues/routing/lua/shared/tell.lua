--- Put what happened into the stream, in the envelope that all lines share.
--- uses  whole
local function tell(line, now, event, queue, id, ...)
  if not line.most then line.most = redis.call('GET', line.cap) or 10000 end
  redis.call('XADD', line.events, 'MAXLEN', '~', line.most, '*', 'v', 1, 'line', 'routing',
    'queue', queue, 'event', event, 'at', whole(now), 'subject', id, ...)
end
