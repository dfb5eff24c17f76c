--- A field of a job; nothing when it has none, is gone or is no hash.
local function field_of(job, field)
  local value = redis.pcall('HGET', job, field)
  return type(value) == 'string' and value or nil
end
