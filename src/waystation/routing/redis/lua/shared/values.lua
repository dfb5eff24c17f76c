--- A number as the digits it has; plain `tostring` would round a large one.
local function whole(number)
  return string.format('%.0f', number)
end

--- The number that a text says, when it is one that counts something; else the other one.
local function number_or(other, text)
  local number = text and tonumber(text)
  return number and number >= 0 and number < 9007199254740992 and number or other
end

--- The text under a key; nil when there is none, or something else.
local function text_of(key)
  local found = redis.pcall('GET', key)
  return type(found) == 'string' and found or nil
end

--- Add to a count of running or started jobs; one that is no number begins anew.
local function raise_count(key, by)
  local count = redis.pcall('INCRBY', key, by)
  if type(count) == 'number' then return count end
  redis.call('SET', key, math.max(by, 0))
  return by
end
