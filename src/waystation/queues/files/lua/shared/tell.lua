--- Tell what happened to a file, in the envelope that every line uses.
local function tell(events, now, queue, event, id, attempt, worker, ...)
  redis.call('XADD', events, '*', 'v', 1, 'line', 'files', 'queue', queue, 'event', event,
    'at', string.format('%.0f', now), 'subject', id, 'attempt', attempt, 'worker', worker, ...)
end
