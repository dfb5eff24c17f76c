--- Note the numbers of a room, once in a minute; a day of them is kept.
--- keys  meta positions recovered prequeue admitted sessions stats minutes
--- args  hour now:str|int -> bool
--- uses  instant_us format_int
if redis.call('EXISTS', meta) == 0 then return 0 end
local minute = math.floor(instant_us(now) / 60000000)
local last = redis.call('LINDEX', minutes, 0) or ''
if (tonumber(string.match(last, '^%d+') or '') or 0) >= minute then return 0 end
local noted = {
  format_int(minute), hour, redis.call('ZCARD', positions) + redis.call('ZCARD', recovered),
  redis.call('ZCARD', prequeue), redis.call('ZCARD', admitted), redis.call('SCARD', sessions),
}
-- What the hour has counted so far; readers take the differences.
local counted = redis.call('HMGET', stats, 'total_enqueued', 'total_admitted', 'total_missed',
  'total_claimed', 'total_passed', 'estimate_n', 'estimate_in', 'estimate_off')
for at = 1, #counted do noted[#noted + 1] = counted[at] or '0' end
redis.call('LPUSH', minutes, table.concat(noted, ':'))
redis.call('LTRIM', minutes, 0, 1440)
redis.call('EXPIRE', minutes, 172800)
return 1
