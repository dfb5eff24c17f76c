--- Take a job out of the handover; nothing when somebody else has it.
local function pick(handover, id)
  local found = redis.call('XRANGE', handover, id, id)[1]
  if not found then return nil end
  redis.call('XDEL', handover, id)
  -- A stream without entries is the same as none.
  if redis.call('XLEN', handover) == 0 then redis.call('DEL', handover) end
  return found[2][2]
end
