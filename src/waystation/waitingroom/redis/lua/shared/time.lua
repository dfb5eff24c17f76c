--- How many come in per second at an instant, given that a change of rate may be under way.
local function rate_at(set, us)
  local rate = tonumber(set.rate) or 0
  local from, began, length = tonumber(set.ramp_from), tonumber(set.ramp_us), tonumber(set.ramp_s)
  if not from or not began or not length or length <= 0 then return rate end
  local share = math.min(1, math.max(0, (us - began) / (length * 1000000)))
  return from + (rate - from) * share
end
