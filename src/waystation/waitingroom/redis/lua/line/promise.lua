--- Remember the estimates of some who have just joined; how many of them are new.
--- keys  promises
--- args  estimates... -> int
-- Many who never come in must not fill the store.
if redis.call('HLEN', promises) > 10000 then redis.call('DEL', promises) end
local new = redis.call('HSET', promises, unpack(ARGV, estimates))
redis.call('EXPIRE', promises, 86400)
return new
