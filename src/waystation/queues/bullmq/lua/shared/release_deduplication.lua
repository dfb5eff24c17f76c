--- Let others like a finished job in again; a key with a TTL runs out by itself.
local function release_deduplication(queue, deduplication, id)
  local key = queue.base .. 'de:' .. deduplication
  if redis.call('GET', key) ~= id then return end
  if redis.call('PTTL', key) == -1 then redis.call('DEL', key) end
end
