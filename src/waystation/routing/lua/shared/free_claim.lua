--- Undo one claim: lock, lease, record, membership, count.
--- uses  uncount
local function free_claim(line, id, claim)
  redis.call('HDEL', line.claims, id)
  redis.call('ZREM', line.leases, id)
  redis.call('SREM', line.active, id)
  redis.call('DEL', line.lock .. id)
  if claim.counted then uncount(line, claim.queue) end
end
