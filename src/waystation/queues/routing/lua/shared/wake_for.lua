--- Tell idle workers that there may be work of a type.
local function wake(line, queue)
  redis.call('XADD', line.wake, 'MAXLEN', '~', 64, '*', 'queue', queue)
end
