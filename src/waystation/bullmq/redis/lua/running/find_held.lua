--- Find the jobs that were claimed under these tokens, for a worker whose answer was lost.
--- The reply has an id, a token and the fields of each.
--- keys  active absent
--- args  base tokens... -> list[Any]
local ours = {}
for at = tokens, #ARGV do ours[ARGV[at]] = true end
local found = {}
for _, id in ipairs(redis.call('LRANGE', active, 0, -1)) do
  local token = redis.call('GET', base .. id .. ':lock')
  if token and ours[token] then
    found[#found + 1] = id
    found[#found + 1] = token
    found[#found + 1] = redis.call('HGETALL', base .. id)
  end
end
return found
