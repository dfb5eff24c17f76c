--- Stop before anything is written when the last turn that was given is no number.
local function check_serial(line)
  local last = redis.call('GET', line.serial)
  if last and not string.find(last, '^%d+$') then
    error('wanted a number under ' .. line.serial .. ', got ' .. last)
  end
end
