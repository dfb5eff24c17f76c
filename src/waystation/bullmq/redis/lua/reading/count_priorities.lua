--- How many jobs wait with each of the priorities, in the order asked for.
--- keys  wait paused prioritized
--- args  priorities:int... -> list[int]
local counts = {}
for place = priorities, #ARGV do
  local priority = tonumber(ARGV[place])
  if priority == 0 then
    counts[#counts + 1] = redis.call('LLEN', wait) + redis.call('LLEN', paused)
  else
    counts[#counts + 1] = redis.call('ZCOUNT', prioritized,
      string.format('%.0f', priority * 4294967296),
      string.format('(%.0f', (priority + 1) * 4294967296))
  end
end
return counts
