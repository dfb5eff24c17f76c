--- The instant that the caller gave, in microseconds; the server's own when it gave none.
local function instant_us(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

--- A number written out in full, which Lua would shorten to 1.7e+15.
local function format_int(number)
  return string.format('%.0f', math.floor(number))
end

--- How many come in per second at an instant, given that a change of rate may be under way.
local function rate_at(set, us)
  local rate = tonumber(set.rate) or 0
  local from, began, length = tonumber(set.ramp_from), tonumber(set.ramp_us), tonumber(set.ramp_s)
  if not from or not began or not length or length <= 0 then return rate end
  local share = math.min(1, math.max(0, (us - began) / (length * 1000000)))
  return from + (rate - from) * share
end
