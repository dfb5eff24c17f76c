--- Find which outcomes were stored by calls whose replies were lost.
--- Each is its kind and id, then the attempts, pickups and stalls that its worker knew of. The reply
--- has for each: when the job finished, 1 when it goes on, 0 when the outcome was not filed, and
--- nothing when the job is gone.
--- keys  active absent
--- args  base outcomes:str|int... -> list[bytes]
local replies = {}
for at = outcomes, #ARGV, 5 do
  local kind, id = ARGV[at], ARGV[at + 1]
  local known = redis.call('HMGET', base .. id, 'atm', 'ats', 'stc', 'finishedOn')
  local made, started = tonumber(known[1]) or 0, tonumber(known[2]) or 0
  local filed = false
  -- Nobody but its worker ends a claim that has not stalled.
  if (tonumber(known[3]) or 0) == tonumber(ARGV[at + 4]) then
    if kind == 'completed' or kind == 'failed' or kind == 'retry' then
      filed = made > tonumber(ARGV[at + 2])
    else
      filed = started > tonumber(ARGV[at + 3]) or not redis.call('LPOS', active, id)
    end
  end
  replies[#replies + 1] = not known[2] and '' or filed and (known[4] or '1') or '0'
end
return replies
