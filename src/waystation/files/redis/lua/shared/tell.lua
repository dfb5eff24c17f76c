--- Tell what happened to a file, in the envelope that every line uses.
--- The scene has the stream, about how much is kept in it, and the instant.
local function tell(scene, queue, event, id, attempt, worker, ...)
  redis.call('XADD', scene.events, 'MAXLEN', '~', scene.events_cap, '*', 'v', 1, 'line', 'files',
    'queue', queue, 'event', event, 'at', scene.at, 'subject', id, 'attempt', attempt,
    'worker', worker, ...)
end
