--- An error reply when a newer term of leadership has begun; nil while this one still counts.
local function fenced(terms, number)
  local current = redis.call('GET', terms)
  if current == number then return nil end
  return redis.error_reply('NOT_LEADER term ' .. number .. ' is over, the current one is '
    .. tostring(current or 'none'))
end
