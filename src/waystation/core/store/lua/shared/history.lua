--- What a job was, as the last fields of the event after which it is gone; nothing when it is too
--- large for a stream, which is memory.
--- uses  bound_stream
local function data_fields(stream, data)
  if #data > 65536 then return end
  bound_stream(stream, #data)
  return 'data', data
end

--- Halve a stream that takes too much memory, when something of this size is added: it is bounded by
--- the number of its entries, which does not bound large ones.
local function bound_stream(stream, size)
  if size <= 8192 then return end
  local used = redis.pcall('MEMORY', 'USAGE', stream)
  if type(used) == 'number' and used > 134217728 then
    local most = redis.call('XLEN', stream) / 2
    redis.pcall('XTRIM', stream, 'MAXLEN', '~', math.floor(most))
  end
end
