--- Say what the job that a worker holds costs in truth; what it costs more than was thought counts
--- for its group from now on, what it costs less counts in its favour, but gathers no credit. The
--- reply is 0, or an error code.
--- keys  meta events absent
--- args  base id token cost:float now:str|int= -> int
--- as    queue base
--- uses  instant_ms must_hold charge_more positive events_cap
local job = base .. id
if must_hold('HLEN', job) == 0 then return -1 end
local held = must_hold('GET', job .. ':lock')
if held ~= token then return held and -6 or -2 end
local known = redis.call('HMGET', job, 'gid', 'gcost', 'gweight', 'processedOn')
local path, more = known[1] or '', tonumber(cost) - positive(known[2])
redis.call('HSET', job, 'gcost', cost)
local since = tonumber(known[4]) or 0
local weight = charge_more(queue, path, more, known[3], instant_ms(now), since)
local turn = weight and { 'more', string.format('%.17g', more), 'weight', weight } or {}
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'charged', 'jobId', id,
  'group', path, 'cost', cost, unpack(turn))
return 0
