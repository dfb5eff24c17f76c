--- How many jobs of the high lane stand at the head of the list.
local function high_count(line)
  -- Turns of the normal lane begin at 2^52; half of that parts the lanes.
  return redis.call('ZCOUNT', line.places, '-inf', '(2251799813685248')
end
