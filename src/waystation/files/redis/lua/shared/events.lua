--- Tell what happened to a file, in the envelope that every line uses.
--- The context has the stream, about how much is kept in it, and the instant.
local function emit_event(context, queue, event, id, attempt, worker, ...)
  redis.call('XADD', context.events, 'MAXLEN', '~', context.events_cap, '*', 'v', 1, 'line', 'files',
    'queue', queue, 'event', event, 'at', context.at, 'subject', id, 'attempt', attempt,
    'worker', worker, ...)
end
