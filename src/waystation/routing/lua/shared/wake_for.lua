--- Wake idle workers: for jobs of one signature, or for a type whatever its jobs ask for.
local function wake_for(line, queue, signature)
  redis.call('XADD', line.wake, 'MAXLEN', '~', 256, '*', 'queue', queue,
    'signature', signature or '')
end
