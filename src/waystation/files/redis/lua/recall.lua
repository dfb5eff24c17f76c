--- Look up which files were added before: 1 for each that was.
--- keys  seen seen_before
--- args  remember_ms:int digests:bytes... -> list[int]
--- uses  rotate_seen
rotate_seen(seen, seen_before, tonumber(remember_ms))
local known = {}
for at = digests, #ARGV do
  local is_known = redis.call('SISMEMBER', seen, ARGV[at])
  if is_known == 0 and redis.call('SISMEMBER', seen_before, ARGV[at]) == 1 then
    redis.call('SADD', seen, ARGV[at])
    is_known = 1
  end
  known[#known + 1] = is_known
end
rotate_seen(seen, seen_before, tonumber(remember_ms))
return known
