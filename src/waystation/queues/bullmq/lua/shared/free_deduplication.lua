--- Let others like a job in again that is about to be removed.
local function free_deduplication(queue, id)
  local deduplication = redis.call('HGET', queue.base .. id, 'deid')
  if not deduplication then return end
  local key = queue.base .. 'de:' .. deduplication
  if redis.call('GET', key) ~= id then return end
  redis.call('DEL', key, queue.base .. 'dn:' .. deduplication)
end
