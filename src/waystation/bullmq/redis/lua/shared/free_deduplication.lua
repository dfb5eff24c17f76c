--- Let others like a job in again that is about to be removed.
--- uses  field_of
local function free_deduplication(queue, id)
  local deduplication = field_of(queue.base .. id, 'deid')
  if not deduplication then return end
  local key = queue.base .. 'de:' .. deduplication
  if redis.pcall('GET', key) ~= id then return end
  redis.call('DEL', key, queue.base .. 'dn:' .. deduplication)
end
