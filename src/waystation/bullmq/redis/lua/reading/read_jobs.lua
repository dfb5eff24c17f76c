--- The fields of jobs, each a flat list that is empty when the job is gone.
--- keys  meta absent
--- args  base ids... -> hashes
local jobs = {}
for place = ids, #ARGV do
  jobs[#jobs + 1] = redis.call('HGETALL', base .. ARGV[place])
end
return jobs
