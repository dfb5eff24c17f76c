--- Delete everything that is kept about a job.
local function forget_job(job)
  redis.call('DEL', job, job .. ':lock', job .. ':logs', job .. ':dependencies',
    job .. ':processed', job .. ':failed', job .. ':unsuccessful')
end
