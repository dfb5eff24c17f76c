--- A job's id and the number of its coming try, without reading the rest of it.
local function name_and_tries(raw)
  local id = string.match(raw, '"id"%s*:%s*"([^"]+)"')
  if not id then id = 'poison-' .. string.sub(redis.sha1hex(raw), 1, 16) end
  return id, (tonumber(string.match(raw, '"retries"%s*:%s*(%d+)') or 0)) + 1
end
