--- Add an event of a file to the stream, in the envelope of all products.
--- The context has the stream, about how many events are kept, and the instant.
local function emit_event(context, queue, event, id, attempt, worker, ...)
  redis.call('XADD', context.events, 'MAXLEN', '~', context.events_cap, '*', 'v', 1, 'line', 'files',
    'queue', queue, 'event', event, 'at', context.at, 'subject', id, 'attempt', attempt,
    'worker', worker, ...)
end

--- What a file was that has ended, as the last fields of its event, while a history follows.
--- uses  data_fields
local function last_data(context, raw)
  if context.is_followed == nil then
    context.is_followed = redis.pcall('EXISTS', context.history) == 1
  end
  if context.is_followed then return data_fields(context.events, raw) end
end
