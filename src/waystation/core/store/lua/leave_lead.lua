--- End a term that still counts; 0 when it was over already.
--- keys  leader terms
--- args  owner number
if redis.call('GET', terms) ~= number or redis.call('GET', leader) ~= owner then return 0 end
return redis.call('DEL', leader)
