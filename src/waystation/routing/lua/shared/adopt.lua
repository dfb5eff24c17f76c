--- Enter into the index what others have put into the list with plain commands, each in its lane.
--- uses  push_waiting route_of bury_unreadable check_line
local function adopt(line, now)
  line.now = now
  local missing = redis.call('LLEN', line.waiting) - redis.call('ZCARD', line.places)
  if missing <= 0 then return end
  check_line(line)

  local normal, urgent, entered = {}, {}, {}
  local function enter(id, end_of_list)
    redis.call('LREM', line.waiting, end_of_list, id)
    -- Pushed twice, or while somebody holds it: one place is enough.
    if entered[id] or redis.call('HEXISTS', line.claims, id) == 1 then return end
    entered[id] = true
    local route, why = route_of(line, id)
    if not route then return bury_unreadable(line, now, id, why) end
    local lane = string.sub(route, 1, 1) == 'H' and urgent or normal
    lane[#lane + 1] = { id, route }
  end

  local function strangers(ids, from, to, step)
    local known, found = redis.call('ZMSCORE', line.places, unpack(ids)), {}
    for at = from, to, step do
      if known[at] then break end
      found[#found + 1] = ids[at]
    end
    return found
  end

  -- At the right end stands what was pushed as normal, at the left what was pushed as urgent.
  local ids = redis.call('LRANGE', line.waiting, -1000, -1)
  for _, id in ipairs(strangers(ids, #ids, 1, -1)) do enter(id, -1) end
  ids = redis.call('LRANGE', line.waiting, 0, 999)
  if #ids > 0 then
    local found = strangers(ids, 1, #ids, 1)
    for at = #found, 1, -1 do enter(found[at], 1) end
  end
  -- Both ends were walked from the newest, or for the left one to the newest.
  for at = #normal, 1, -1 do push_waiting(line, normal[at][1], normal[at][2]) end
  for at = 1, #urgent do push_waiting(line, urgent[at][1], urgent[at][2]) end
end
