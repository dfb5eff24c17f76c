--- What keeps jobs of a signature from running: how many of these workers fit, what the nearest one
--- lacks and who that is, whether the type is paused, whether a limit is used up and until when,
--- and the two limits with how much of each is used.
--- uses  lacking queue_of room_for limit_for left_in whole
local function obstacles(line, now, signature, workers)
  local wanted, fit, nearest, name, distance = cjson.decode(signature), 0, nil, '', math.huge
  for _, worker in ipairs(workers) do
    local lacks, count = lacking(wanted, worker), 0
    for _, category in ipairs(lacks) do count = count + #category[2] end
    if count == 0 then
      fit = fit + 1
    elseif count < distance then
      nearest, name, distance = lacks, worker.server, count
    end
  end
  if fit > 0 or not nearest then nearest, name = {}, '' end
  local lacks = #nearest > 0 and cjson.encode(nearest) or '[]'

  local queue = queue_of(signature)
  local room = room_for(line, queue)
  local limit = limit_for(room, signature) or {}
  local left, pause_ms = left_in(line, queue, room, limit)
  local function digits(number) return number and whole(number) or '' end
  return {
    fit, lacks, name, room.paused and 1 or 0, left > 0 and 0 or 1,
    pause_ms > 0 and whole(now + pause_ms) or '',
    digits(limit.most), digits(room.running), digits(limit.a_minute), digits(room.started),
  }
end
