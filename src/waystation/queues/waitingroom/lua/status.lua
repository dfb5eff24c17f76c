--- How things stand for somebody; changes nothing.
--- keys  meta positions elevated vip premium prequeue early_elevated early_vip early_premium
--- keys  recovered admitted missed sessions_expiry
--- args  id now
--- uses  instant_us whole standing
local set = redis.call('HMGET', meta, 'phase', 'starts_us', 'missed_s')
return standing({
  now = instant_us(now), phase = set[1], starts = set[2] and whole(set[2] / 1000),
  missed_s = tonumber(set[3]) or 600, positions = positions, upper = { elevated, vip, premium },
  prequeue = prequeue, early = { early_elevated, early_vip, early_premium },
  recovered = recovered, admitted = admitted, missed = missed, sessions_expiry = sessions_expiry,
}, id)
