--- Free the deduplication id of a job, if it owns it: 1, or 0 when it does not.
--- keys  meta absent
--- args  base id deduplication -> bool
local key = base .. 'de:' .. deduplication
if redis.call('GET', key) ~= id then return 0 end
return redis.call('DEL', key)
