--- Let others like a job in, if it is the one that stands for them: whether it was.
--- args  base id deduplication
local key = base .. 'de:' .. deduplication
if redis.call('GET', key) ~= id then return 0 end
return redis.call('DEL', key)
