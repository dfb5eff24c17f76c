--- The lane and signature of a job, kept since dispatch or read off its data; nil, and why, when
--- it cannot be told.
--- uses  signature_of text_of
local function route_of(line, id)
  local kept = redis.call('HGET', line.routes, id)
  if kept then return kept end
  local data = text_of(line.data .. id)
  if not data then return nil, 'gone' end
  local read, job = pcall(cjson.decode, data)
  if not read or type(job) ~= 'table' or type(job.type) ~= 'string' then return nil, 'malformed' end
  local priority = tonumber(job.priority) or 5
  local route = (priority >= 7 and 'H' or 'N') .. signature_of(job)
  redis.call('HSET', line.routes, id, route)
  return route
end
