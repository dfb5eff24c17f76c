--- The id of a stream's newest entry; `0-0` when it has none.
local function newest_id(stream)
  local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  return newest and newest[1] or '0-0'
end
