--- Emit an event, in the envelope that all products share.
--- uses  whole number_or text_of
local function emit_event(line, now, event, queue, id, ...)
  -- A script has one instant, and emits up to thousands of events; only the first makes room.
  if line.event_time then
    redis.call('XADD', line.events, '*', 'v', '1', 'line', 'routing', 'queue', queue,
      'event', event, 'at', line.event_time, 'subject', id, ...)
    return
  end
  line.event_time = whole(now)
  redis.call('XADD', line.events, 'MAXLEN', '~', whole(number_or(10000, text_of(line.cap))), '*',
    'v', '1', 'line', 'routing', 'queue', queue, 'event', event, 'at', line.event_time,
    'subject', id, ...)
end

--- Wake idle workers: for jobs of one signature, or for a type whatever its jobs ask for.
local function wake_for(line, queue, signature)
  redis.call('XADD', line.wake, 'MAXLEN', '~', 256, '*', 'queue', queue,
    'signature', signature or '')
end
