--- Remember what a step of a job returned, and which function it was. The reply has 0 and what is
--- remembered, or an error code.
--- keys  meta events absent
--- args  base id token step by value:bytes -> stepped
--- uses  must_hold events_cap
local job = base .. id
if must_hold('HLEN', job) == 0 then return { -1 } end
local held = must_hold('GET', job .. ':lock')
if held ~= token then return { held and -6 or -2 } end
local known = redis.call('HMGET', job, 'step:' .. step, 'steps', 'stc')
if known[1] then return { 0, known[1] } end
local fields = { 'step:' .. step, value, 'steps', (tonumber(known[2]) or 0) + 1 }
if by ~= '' then fields[5], fields[6] = 'by:' .. step, by end
-- Whatever made the job lose its workers, it gets on.
if known[3] then fields[#fields + 1], fields[#fields + 2] = 'stc', 0 end
redis.call('HSET', job, unpack(fields))
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'step', 'jobId', id,
  'step', step)
return { 0, value }
