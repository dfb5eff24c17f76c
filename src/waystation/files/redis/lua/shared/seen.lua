--- Rotate the remembered files: each stays for one to two spans, without a timer of its own.
local function rotate_seen(seen, seen_before, remember_ms)
  local left = redis.call('PTTL', seen)
  if left == -1 then
    redis.call('PEXPIRE', seen, 2 * remember_ms)
  elseif left >= 0 and left < remember_ms then
    -- It takes its remaining time along.
    redis.call('UNLINK', seen_before)
    redis.call('RENAME', seen, seen_before)
  end
end
