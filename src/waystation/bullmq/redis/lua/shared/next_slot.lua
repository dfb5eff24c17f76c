--- When a scheduler that counts milliseconds runs next, and how far into its stretch that is.
--- Slots that were missed are left out.
local function next_slot(previous, every, offset, start, now)
  local slot = now
  if previous then
    slot = previous + every
    if slot < now then
      slot = math.floor(now / every) * every + offset
      if slot <= now then slot = slot + every end
    end
  elseif start then
    slot = math.max(start, now)
  elseif offset > 0 then
    slot = math.floor(now / every) * every + offset
    if slot <= now then slot = slot + every end
  end
  if offset == 0 then offset = slot % every end
  return slot, offset
end
