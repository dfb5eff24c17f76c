--- Store how far a job is, if the caller holds it.
--- keys  claims events
--- keys  unmoved
--- args  namespace now:str|int id token progress:bytes percent:float keep_s:int -> bool
--- uses  keys_at instant_ms emit_event claim_of
local line = keys_at(namespace)
local record = redis.call('HGET', claims, id)
local claim = record and claim_of(record)
if not claim or claim.token ~= token then
  return redis.error_reply('LEASE_LOST job ' .. id .. ' is held by another worker, or by none')
end
redis.call('SET', line.progress .. id, progress, 'EX', keep_s)
emit_event(line, instant_ms(now), 'progress', claim.queue, id, 'worker', claim.worker, 'percent', percent)
return 1
