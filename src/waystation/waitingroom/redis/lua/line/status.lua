--- How things stand for each of some people; changes nothing.
--- keys  meta positions elevated vip premium prequeue early_elevated early_vip early_premium
--- keys  recovered admitted missed sessions_expiry
--- args  now:str|int ids... -> statuses
--- uses  instant_us format_int visitor_status
local set = redis.call('HMGET', meta, 'phase', 'starts_us', 'missed_s')
local room = {
  now = instant_us(now), phase = set[1], starts = set[2] and format_int(set[2] / 1000),
  missed_s = tonumber(set[3]) or 600, positions = positions, upper = { elevated, vip, premium },
  prequeue = prequeue, early = { early_elevated, early_vip, early_premium },
  recovered = recovered, admitted = admitted, missed = missed, sessions_expiry = sessions_expiry,
}
local answers = {}
for at = ids, #ARGV do answers[#answers + 1] = visitor_status(room, ARGV[at]) end
return answers
