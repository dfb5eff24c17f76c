--- Call in as many as there are turns and seats for.
--- keys  meta state positions elevated vip premium normal_list elevated_list vip_list premium_list
--- keys  recovered admitted missed sessions sessions_expiry sessions_began heartbeat stays promises
--- keys  ratios tokens last_update events stats
--- args  queue now:str|int most:int extra:int only:str|int -> round
--- as    room queue
--- uses  instant_us format_int count sweep_turns sweep_sessions fill_bucket give_turns learn
--- uses  learn_time
local set = redis.call('HMGET', meta, 'status', 'admission_rate', 'max_active', 'burst',
  'lane_weights', 'strict_lanes', 'queueing_method', 'phase', 'claim_window_s', 'missed_s',
  'events_cap', 'ramp_from', 'ramp_us', 'ramp_s', 'starts_us')
-- Of a room that has been deleted meanwhile nothing may come back.
if not set[1] and not set[8] then return { {}, 0, 0, 0 } end
local us = instant_us(now)
room.now, room.cap, room.missed_s = us, set[11], tonumber(set[10]) or 600
local no_shows = sweep_turns(room, 500)
local ended = sweep_sessions(room, 500)
count(stats, 'total_missed', no_shows)
if no_shows > 0 then learn(stays, 'no_shows', no_shows) end

local filled, burst, rate = fill_bucket({
  rate = set[2], burst = set[4], ramp_from = set[12], ramp_us = set[13], ramp_s = set[14],
}, us, tokens, last_update)
-- A turn that was not taken is given again: as many come in as the rate says, whoever stays away.
local owed = (tonumber(redis.call('HGET', state, 'owed')) or 0) + no_shows
owed = math.min(owed, math.ceil(rate * (tonumber(set[9]) or 120)))

local called = {}
local open = (set[1] or 'active') == 'active' or set[1] == 'draining'
if open and (set[8] or 'open') == 'open' then
  local free = (tonumber(set[3]) or 0) - redis.call('SCARD', sessions) - redis.call('ZCARD', admitted)
  local turns = math.max(math.floor(filled + 0.0000001) + owed, tonumber(extra))
  turns = math.max(0, math.min(turns, free, tonumber(most)))
  called = give_turns(room, set, {
    state = state, positions = positions, upper = { elevated, vip, premium },
    lists = { [0] = normal_list, elevated_list, vip_list, premium_list },
    recovered = recovered, heartbeat = heartbeat, stats = stats, promises = promises, ratios = ratios,
  }, turns, only)
end
local again = math.min(owed, #called)
local left = math.max(0, filled - (#called - again))
-- Whoever stopped at the size of a step goes on at once, so nothing is capped in between.
if #called < tonumber(most) then left = math.min(burst, left) end
redis.call('HSET', state, 'owed', owed - again)
redis.call('SET', tokens, string.format('%.6f', left))
redis.call('SET', last_update, string.format('%.6f', us / 1000000))

-- How many come in per second of late: what the estimate believes more than any setting.
local flow = redis.call('HMGET', state, 'flow', 'flow_us', 'flow_since')
local gone = (us - (tonumber(flow[2]) or us)) / 60000000
local pace = (tonumber(flow[1]) or 0) * math.exp(-gone) + #called / 60
local waiting = redis.call('ZCARD', positions)
learn_time(stays, sessions_began, us, waiting)
-- Where nobody waits, the pace says how many arrive and not how many could come in.
local since = waiting > 0 and (flow[3] or format_int(us)) or ''
if waiting > 0 and flow[3] == '' then since, pace = format_int(us), #called / 60 end
redis.call('HSET', state, 'flow', string.format('%.9g', pace), 'flow_us', format_int(us), 'flow_since', since)
return { called, no_shows, ended, waiting }
