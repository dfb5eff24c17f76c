--- How things stand for each of some people; changes nothing.
--- keys  meta positions elevated vip premium prequeue early_elevated early_vip early_premium
--- keys  recovered admitted missed sessions_expiry
--- args  now:str|int ids... -> statuses
--- as    room
--- uses  instant_us format_int visitor_status
local set = redis.call('HMGET', meta, 'phase', 'starts_us', 'missed_s')
room.now, room.phase, room.missed_s = instant_us(now), set[1], tonumber(set[3]) or 600
room.starts = set[2] and format_int(set[2] / 1000)
room.upper, room.early = { elevated, vip, premium }, { early_elevated, early_vip, early_premium }
local answers = {}
for at = ids, #ARGV do answers[#answers + 1] = visitor_status(room, ARGV[at]) end
return answers
