--- What is stored of schedulers: when each runs next, the mark of one that is paused, and its fields.
--- keys  paused_schedulers absent
--- args  base ids... -> schedulers
local found = {}
for place = ids, #ARGV do
  local id = ARGV[place]
  local fields = redis.pcall('HGETALL', base .. 'repeat:' .. id)
  found[#found + 1] = {
    redis.call('ZSCORE', base .. 'repeat', id) or '',
    redis.call('HGET', paused_schedulers, id),
    -- What another client has put there instead is no scheduler.
    fields.err and {} or fields,
  }
end
return found
