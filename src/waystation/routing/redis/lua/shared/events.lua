--- Emit an event, in the envelope that all products share.
--- uses  whole number_or text_of
local function emit_event(line, now, event, queue, id, ...)
  if not line.most then
    -- A script has one instant, and emits up to hundreds of events.
    line.most = whole(number_or(10000, text_of(line.cap)))
    line.event_time = whole(now)
  end
  redis.call('XADD', line.events, 'MAXLEN', '~', line.most, '*', 'v', '1', 'line', 'routing',
    'queue', queue, 'event', event, 'at', line.event_time, 'subject', id, ...)
end

--- Wake idle workers: for jobs of one signature, or for a type whatever its jobs ask for.
local function wake_for(line, queue, signature)
  redis.call('XADD', line.wake, 'MAXLEN', '~', 256, '*', 'queue', queue,
    'signature', signature or '')
end
