--- How many milliseconds the lock of a job still lasts; nil when there is none. A lock without an
--- end gets the one that the document gives every lock, so that its holder has to renew it.
local function lock_left(line, id)
  local left = redis.call('PTTL', line.lock .. id)
  if left == -1 then
    left = 30000
    redis.call('PEXPIRE', line.lock .. id, left)
  end
  return left > 0 and left or nil
end
