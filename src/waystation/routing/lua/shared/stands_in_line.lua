--- Whether an id is in the waiting list; when it is not, the index forgets it.
--- uses  unindex_jobs
local function stands_in_line(line, id, signature)
  local rank = redis.call('ZRANK', line.places, id)
  if rank and redis.call('LINDEX', line.waiting, rank) == id then return true end
  if redis.call('LPOS', line.waiting, id) then return true end
  redis.call('ZREM', line.places, id)
  unindex_jobs(line, signature, { id })
  return false
end
