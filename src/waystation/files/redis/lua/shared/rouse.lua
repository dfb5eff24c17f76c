--- Wake one idle worker; one entry is enough, because whoever takes it looks at every queue.
local function rouse(wake)
  if redis.call('LLEN', wake) == 0 then redis.call('LPUSH', wake, '1') end
end
