--- Take those out of the line who fell silent; the ids of at most so many.
--- keys  meta state positions elevated vip premium recovered missed heartbeat stays events stats
--- args  queue batch:int now:str|int -> swept
--- as    room queue
--- uses  instant_us format_int emit_event count learn
local set = redis.call('HMGET', meta, 'status', 'phase', 'idle_s', 'paused_idle_s', 'events_cap')
local us = instant_us(now)
room.now, room.cap = us, set[5]
local lost = redis.call('ZRANGEBYSCORE', missed, '-inf', format_int(us), 'LIMIT', 0, batch)
for _, id in ipairs(lost) do
  redis.call('ZREM', missed, id)
  emit_event(room, 'expired', id, 'reason', 'missed')
end

-- Whoever cannot come in is given longer, and after a pause everybody gets the usual time again.
local status = set[1] or 'active'
local idle = tonumber(set[3]) or 300
-- Of a room that is over nobody waits for anything.
local over = status == 'closed' or status == 'sold_out'
local held = status ~= 'active' and status ~= 'draining' and not over
local resumed = tonumber(redis.call('HGET', state, 'resumed_us')) or 0
if held or (set[2] or 'open') ~= 'open' or us - resumed < idle * 1000000 then
  idle = math.max(idle, tonumber(set[4]) or 1500)
end
local silent = redis.call('ZRANGEBYSCORE', heartbeat, '-inf', '(' .. format_int(us / 1000000 - idle),
  'WITHSCORES', 'LIMIT', 0, batch)
local ids = {}
for at = 1, #silent, 2 do
  local id = silent[at]
  ids[#ids + 1] = id
  emit_event(room, 'expired', id, 'reason', 'silent', 'heard', format_int(silent[at + 1] * 1000))
end
if #ids > 0 then
  for _, from in ipairs({ heartbeat, positions, elevated, vip, premium, recovered }) do
    redis.call('ZREM', from, unpack(ids))
  end
end
if #ids > 0 then learn(stays, 'gone', #ids) end
count(stats, 'total_expired', #ids + #lost)
return { ids, #lost }
