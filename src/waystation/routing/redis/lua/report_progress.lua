--- Keep how far a job is, as long as the one who tells holds it.
--- keys  claims events
--- args  namespace now id token progress percent keep_s
--- uses  line_at instant_ms tell claim_of
local line = line_at(namespace)
local record = redis.call('HGET', claims, id)
local claim = record and claim_of(record)
if not claim or claim.token ~= token then
  return redis.error_reply('LEASE_LOST job ' .. id .. ' is held by somebody else, or by nobody')
end
redis.call('SET', line.progress .. id, progress, 'EX', keep_s)
tell(line, instant_ms(now), 'progress', claim.queue, id, 'worker', claim.worker, 'percent', percent)
return 1
