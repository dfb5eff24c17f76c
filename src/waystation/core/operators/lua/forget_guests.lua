--- Forget those whom an identity provider knew and whose sign-in is over.
--- keys  operators
--- args  guest now
-- Looked at and forgotten in one step: one of them may be signing in again at this moment.
local kept = redis.call('HGETALL', operators)
for at = 1, #kept, 2 do
  if string.sub(kept[at], 1, #guest) == guest then
    local read, who = pcall(cjson.decode, kept[at + 1])
    local ends = read and type(who) == 'table' and tonumber(who.expires_ms or 0)
    if ends and ends <= tonumber(now) then redis.call('HDEL', operators, kept[at]) end
  end
end
return 1
