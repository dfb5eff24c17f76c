--- Add an event of a file to the stream, in the envelope of all products.
--- The context has the stream, about how many events are kept, and the instant.
local function emit_event(context, queue, event, id, attempt, worker, ...)
  redis.call('XADD', context.events, 'MAXLEN', '~', context.events_cap, '*', 'v', 1, 'line', 'files',
    'queue', queue, 'event', event, 'at', context.at, 'subject', id, 'attempt', attempt,
    'worker', worker, ...)
end
