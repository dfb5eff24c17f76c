--- Lengthen a term that still counts.
--- keys  leader terms
--- args  owner number ttl
--- uses  fenced
local over = fenced(terms, number)
if over then return over end
if redis.call('GET', leader) ~= owner then
  return redis.error_reply('NOT_LEADER ' .. owner .. ' does not lead any more')
end
return redis.call('PEXPIRE', leader, ttl)
