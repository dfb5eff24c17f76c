--- The text under a key; nil when there is none, or something else.
local function text_of(key)
  local found = redis.pcall('GET', key)
  return type(found) == 'string' and found or nil
end
