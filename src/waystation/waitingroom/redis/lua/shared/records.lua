--- For how many seconds the record of somebody who waits is kept: as long as the place may last, however
--- short an operator wants it.
-- Whoever falls silent may be called at the last moment, miss that turn, and take it back at the last moment.
-- The minute is for sweeps that come late; before the opening nobody falls silent.
local function record_seconds(room, early)
  local set = redis.call('HMGET', room.meta, 'position_ttl_s', 'idle_s', 'paused_idle_s', 'claim_window_s',
    'missed_s', 'starts_us')
  local silent = math.max(tonumber(set[2]) or 300, tonumber(set[3]) or 1500)
  local place = silent + (tonumber(set[4]) or 120) + (tonumber(set[5]) or 600) + 60
  local until_start = early and set[6] and math.ceil((set[6] - room.now) / 1000000) or 0
  return math.max(tonumber(set[1]) or 1800, place) + math.max(0, until_start)
end
