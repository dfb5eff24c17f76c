--- What is stored of schedulers: when each runs next, the mark of one that is paused, and its fields.
--- keys  paused_schedulers absent
--- args  base ids... -> schedulers
local found = {}
for place = ids, #ARGV do
  local id = ARGV[place]
  found[#found + 1] = {
    redis.call('ZSCORE', base .. 'repeat', id) or '',
    redis.call('HGET', paused_schedulers, id),
    redis.call('HGETALL', base .. 'repeat:' .. id),
  }
end
return found
