--- Put what happened into the stream, in the envelope that all lines share.
--- uses  whole number_or text_of
local function tell(line, now, event, queue, id, ...)
  if not line.most then
    -- A script has one instant, and tells up to hundreds of things.
    line.most = whole(number_or(10000, text_of(line.cap)))
    line.told_at = whole(now)
  end
  redis.call('XADD', line.events, 'MAXLEN', '~', line.most, '*', 'v', '1', 'line', 'routing',
    'queue', queue, 'event', event, 'at', line.told_at, 'subject', id, ...)
end

--- Wake idle workers: for jobs of one signature, or for a type whatever its jobs ask for.
local function wake_for(line, queue, signature)
  redis.call('XADD', line.wake, 'MAXLEN', '~', 256, '*', 'queue', queue,
    'signature', signature or '')
end
