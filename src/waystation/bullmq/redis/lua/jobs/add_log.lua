--- Write a line into a job's log, which keeps the newest ones: how many there are, or -1.
--- keys  job logs
--- args  line:bytes keep:str|int -> int
if redis.call('EXISTS', job) == 0 then return -1 end
local lines = redis.call('RPUSH', logs, line)
if keep == '' then return lines end
if keep == '0' then
  redis.call('DEL', logs)
  return 0
end
redis.call('LTRIM', logs, -keep, -1)
return math.min(lines, tonumber(keep))
