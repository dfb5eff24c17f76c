--- The id of a stream's newest entry; `0-0` when it has none.
local function newest_id(stream)
  local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
  return newest and newest[1] or '0-0'
end

--- Take a job out of the unmatched files; nil when another worker has it.
local function take_unmatched(unmatched, id)
  local found = redis.call('XRANGE', unmatched, id, id)[1]
  if not found then return nil end
  redis.call('XDEL', unmatched, id)
  -- A stream without entries is the same as none.
  if redis.call('XLEN', unmatched) == 0 then redis.call('DEL', unmatched) end
  return found[2][2]
end
