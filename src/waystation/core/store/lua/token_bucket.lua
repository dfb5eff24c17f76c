--- Let a call through when the bucket holds enough tokens for it.
--- keys  state
--- args  capacity refill period cost now
--- uses  instant_ms
-- One token is counted as `period` parts, so that a millisecond adds `refill` whole parts and
-- nothing is ever rounded.
local parts, gain = tonumber(period), tonumber(refill)
local full, wanted = tonumber(capacity) * parts, tonumber(cost) * parts
local kept = redis.call('HMGET', state, 'parts', 'at')
local before = tonumber(kept[2] or 0)
-- A clock that steps back must not fill the same span twice.
local at = math.max(instant_ms(now), before)
local level = full
if kept[1] then
  level = math.min(full, tonumber(kept[1]) + (at - before) * gain)
end

if level < wanted then
  return { 0, math.floor(level / parts), math.ceil((wanted - level) / gain) }
end

level = level - wanted
redis.call('HSET', state, 'parts', string.format('%.0f', level), 'at', string.format('%.0f', at))
-- A bucket that is full again is the same as none.
redis.call('PEXPIRE', state, math.ceil((full - level) / gain))
return { 1, math.floor(level / parts), 0 }
