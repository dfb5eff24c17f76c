--- Renew locks by their ids and tokens; the reply has the places, from 1, of those that are lost.
--- keys  stalled absent
--- args  base lease_ms:int locks... -> list[int]
local lost = {}
for at = locks, #ARGV, 2 do
  local lock = base .. ARGV[at] .. ':lock'
  -- What is no lock is not ours.
  if redis.pcall('GET', lock) == ARGV[at + 1] then
    redis.call('PEXPIRE', lock, lease_ms)
    redis.call('SREM', stalled, ARGV[at])
  else
    lost[#lost + 1] = (at - locks) / 2 + 1
  end
end
return lost
