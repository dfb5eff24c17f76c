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

--- What a job was whose data is removed now, as the last fields of its event, while a history follows.
--- uses  text_of data_fields
local function last_data(line, id)
  if line.is_followed == nil then line.is_followed = redis.pcall('EXISTS', line.history) == 1 end
  local data = line.is_followed and text_of(line.data .. id)
  if data then return data_fields(line.events, data) end
end

--- The class and message of the error in the JSON of a result or of a dead letter; '' without one.
local function error_in(text)
  local read, found = pcall(cjson.decode, text)
  local error = read and type(found) == 'table' and found.error
  if type(error) ~= 'table' or type(error.message) ~= 'string' then return '' end
  return (type(error.name) == 'string' and error.name .. ': ' or '') .. error.message
end

--- Wake idle workers: for jobs of one signature, or for a type whatever its jobs ask for.
local function wake_for(line, queue, signature)
  redis.call('XADD', line.wake, 'MAXLEN', '~', 256, '*', 'queue', queue,
    'signature', signature or '')
end
