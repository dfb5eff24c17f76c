--- Give the place of somebody who shows the same invitation again to the device shown on.
--- keys  position
--- args  visitor proof
if redis.call('HGET', position, 'ip_hash') ~= visitor then return 0 end
redis.call('HSET', position, 'proof', proof)
return 1
