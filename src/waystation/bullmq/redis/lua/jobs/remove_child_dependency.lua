--- Release a parent from waiting for a child; 1 when done, 0 when it did not wait, or an error code.
--- keys  job absent
--- args  base now:str|int= -> int
--- uses  instant_ms check_parent leave_parent
if redis.call('EXISTS', job) == 0 then return -1 end
local parent_key = redis.call('HGET', job, 'parentKey')
if not parent_key then return 0 end
if redis.call('EXISTS', parent_key) == 0 then return -5 end
if redis.call('SISMEMBER', parent_key .. ':dependencies', job) == 0 then return 0 end
check_parent(base, parent_key, {})
leave_parent({ base = base }, job, parent_key, instant_ms(now))
redis.call('HDEL', job, 'parentKey', 'parent')
return 1
