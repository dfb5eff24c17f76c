--- The first slot from this one on that has no job yet; nothing when 32 in a row have one.
local function free_slot(base, scheduler, slot, every)
  for _ = 0, 32 do
    local id = 'repeat:' .. scheduler .. ':' .. string.format('%.0f', slot)
    if redis.call('EXISTS', base .. id) == 0 then return slot end
    slot = slot + every
  end
end
