--- The numbers of a limit that has been read from JSON; nil when it says nothing.
local function limit_of(given)
  if type(given) ~= 'table' then return nil end
  local most, a_minute = tonumber(given.maxConcurrent), tonumber(given.maxPerMinute)
  if not most and not a_minute then return nil end
  return { most = most, a_minute = a_minute }
end
