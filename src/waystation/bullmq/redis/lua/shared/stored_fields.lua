--- The fields of a job as they are stored; none when there is no job.
local function stored_fields(job)
  local fields = redis.pcall('HGETALL', job)
  return fields.err and {} or fields
end
