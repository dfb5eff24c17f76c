--- How a job has ended: completed and its result, failed and its reason, open, or missing.
--- keys  completed failed absent
--- args  base id -> end
local job = base .. id
if redis.call('ZSCORE', completed, id) then
  return { 'completed', redis.call('HGET', job, 'returnvalue') or 'null' }
end
if redis.call('ZSCORE', failed, id) then
  return { 'failed', redis.call('HGET', job, 'failedReason') or '' }
end
return { redis.call('EXISTS', job) == 1 and 'open' or 'missing', '' }
