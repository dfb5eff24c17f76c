--- Put what happened into the stream, in the envelope that all lines share.
--- uses  whole
local function tell(room, event, id, ...)
  redis.call('XADD', room.events, 'MAXLEN', '~', room.cap or 10000, '*', 'v', 1,
    'line', 'waitingroom', 'queue', room.queue, 'event', event, 'at', whole(room.now / 1000),
    'subject', id, ...)
end
