--- Forget those whom an identity provider knew and whose sign-in is over.
--- keys  operators
--- args  guest now
-- Looked at and forgotten in one step: one of them may be signing in again at this moment.
local kept = redis.call('HGETALL', operators)
for at = 1, #kept, 2 do
  if string.sub(kept[at], 1, #guest) == guest then
    local read, who = pcall(cjson.decode, kept[at + 1])
    if read and (who.expires_ms or 0) <= tonumber(now) then redis.call('HDEL', operators, kept[at]) end
  end
end
return 1
