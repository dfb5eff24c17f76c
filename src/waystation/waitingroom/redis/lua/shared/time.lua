--- How many come in per second at an instant, given that a change of rate may be under way.
local function rate_at(set, us)
  local rate = tonumber(set.rate) or 0
  local from, began, length = tonumber(set.ramp_from), tonumber(set.ramp_us), tonumber(set.ramp_s)
  if not from or not began or not length or length <= 0 then return rate end
  local share = math.min(1, math.max(0, (us - began) / (length * 1000000)))
  return from + (rate - from) * share
end

--- The turns that may be given now, what the bucket holds at most, and the rate at this instant.
--- uses  rate_at
-- Seconds have six decimals, so that not a microsecond of a turn is lost.
local function fill_bucket(set, us, tokens, last_update)
  local rate = rate_at(set, us)
  local burst = tonumber(set.burst) or 0
  if rate <= 0 then burst = 0 elseif burst <= 0 then burst = math.max(1, rate) end
  local kept, before = redis.call('GET', tokens), tonumber(redis.call('GET', last_update) or '')
  local last = before and math.min(us, math.floor(before * 1000000 + 0.5)) or us
  local level = kept and tonumber(kept) or burst
  local gained = (us - last) / 1000000 * (rate + rate_at(set, last)) / 2
  -- The part of a turn that is under way may stand above the brim, or small buckets would spill
  -- some of it at every call.
  return math.min(level + gained, rate > 0 and burst + 0.999999 or 0), burst, rate
end
