--- How many jobs are in each of the states, in the order asked for.
--- keys  completed failed delayed prioritized active wait paused waiting_children grouped
--- args  states... -> list[int]
local sets = {
  completed = completed, failed = failed, delayed = delayed, prioritized = prioritized,
  ['waiting-children'] = waiting_children,
}
local counts = {}
for place = states, #ARGV do
  local state = ARGV[place]
  if state == 'waiting' then
    counts[#counts + 1] = redis.call('LLEN', wait) + redis.call('LLEN', paused)
      + redis.call('ZCARD', grouped)
  elseif state == 'active' or state == 'paused' then
    counts[#counts + 1] = redis.call('LLEN', state == 'active' and active or paused)
  else
    counts[#counts + 1] = redis.call('ZCARD', sets[state])
  end
end
return counts
