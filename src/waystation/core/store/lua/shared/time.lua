--- The instant that the caller gave, in milliseconds; the server's own when it gave none.
local function instant_ms(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

--- The instant that the caller gave, in microseconds; the server's own when it gave none.
local function instant_us(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end
