--- Take ids out of their signature, and let the next one lead it; true when there is a next.
local function unindex_jobs(line, signature, ids)
  if type(redis.pcall('ZREM', line.ids .. signature, unpack(ids))) == 'table' then return false end
  local first = redis.call('ZRANGE', line.ids .. signature, 0, 0, 'WITHSCORES')
  if first[1] then
    redis.call('ZADD', line.heads, first[2], signature)
  else
    redis.call('ZREM', line.heads, signature)
  end
  return first[1] ~= nil
end
