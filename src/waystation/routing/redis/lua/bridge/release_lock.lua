--- Release a job's lock if the worker owns it; 1 when it did. The arguments are those of BridgeMQ.
--- keys  lock active concurrent
--- args  worker id -> bool
--- uses  keys_at claim_of free_claim number_or text_of check_keys instant_ms note_end
--- uses  release_dependents
if redis.call('GET', lock) ~= worker then return 0 end
local line = keys_at(string.match(active, '^(.*):jobs:active$'))
check_keys(line)
local record = redis.call('HGET', line.claims, id)
if record then
  free_claim(line, id, claim_of(record))
else
  redis.call('DEL', lock)
  redis.call('SREM', active, id)
  -- Claimed by a client that counts every job; never below nothing.
  if number_or(0, text_of(concurrent)) > 0 and redis.call('DECR', concurrent) == 0 then
    redis.call('DEL', concurrent)
  end
end
if text_of(line.status .. id) == 'completed' then
  redis.call('HDEL', line.routes, id)
  redis.call('HDEL', line.stalls, id)
  line.now = instant_ms('')
  note_end(line, id, '')
  release_dependents(line, line.now, 100)
end
return 1
