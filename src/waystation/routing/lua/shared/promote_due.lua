--- Let delayed jobs wait whose time has come; how many did.
--- uses  push_waiting route_of bury_unreadable tell whole queue_of
local function promote_due(line, now, most)
  local due = redis.call('ZRANGEBYSCORE', line.delayed, '-inf', whole(now), 'LIMIT', 0, math.min(tonumber(most) or 100, 1000))
  if #due == 0 then return 0 end
  redis.call('ZREM', line.delayed, unpack(due))
  local promoted = 0
  for _, id in ipairs(due) do
    local route, why = route_of(line, id)
    if not route then
      bury_unreadable(line, now, id, why)
      promoted = promoted + 1
    elseif push_waiting(line, id, route) then
      promoted = promoted + 1
      tell(line, now, 'waiting', queue_of(string.sub(route, 2)), id, 'prev', 'delayed')
    end
  end
  return promoted
end
