--- Begin a term when nobody leads, or go on with one's own; 0 when somebody else leads.
--- keys  leader terms
--- args  owner ttl
local holder = redis.call('GET', leader)
if holder and holder ~= owner then return 0 end
local current = holder and redis.call('GET', terms)
if current then
  redis.call('PEXPIRE', leader, ttl)
  return tonumber(current)
end
-- There is none, or its number is gone, which ends it; a first write that takes no memory lets a full server have a leader, too.
redis.call('DEL', leader)
local number = redis.call('INCR', terms)
redis.call('SET', leader, owner, 'PX', ttl)
return number
