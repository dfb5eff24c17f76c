--- Give the place of somebody who shows the same invitation again to the device shown on.
--- keys  position
--- args  visitor proof -> bool
local kept = redis.call('HMGET', position, 'ip_hash', 'status')
-- One seat is for one device: an invitation that is passed on lets nobody else in on it.
if kept[1] ~= visitor or kept[2] == 'active' then return 0 end
redis.call('HSET', position, 'proof', proof)
return 1
