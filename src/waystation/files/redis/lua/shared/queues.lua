--- Wake one idle worker; one entry is enough, because the worker examines every queue.
local function wake_worker(wake)
  if redis.call('LLEN', wake) == 0 then redis.call('LPUSH', wake, '1') end
end

--- Stop before anything is written when a queue or its retries have another type.
--- uses  must_hold
local function check_lanes(lanes)
  for lane = lanes, #KEYS, 2 do
    must_hold('LLEN', KEYS[lane])
    must_hold('ZCARD', KEYS[lane + 1])
  end
end
