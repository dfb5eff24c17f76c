--- Use an access code: once for each visitor, and for no more visitors than it allows.
--- keys  codes redeemed
--- args  code visitor now:str|int -> texts
--- uses  instant_us
local kept = redis.call('HGET', codes, code)
if not kept then return { 'refused' } end
local lane, uses, ends = string.match(kept, '^(%d):(%d+):(%d+):')
if tonumber(ends) > 0 and tonumber(ends) * 1000000 <= instant_us(now) then return { 'refused' } end
local mine = code .. '|' .. visitor
if redis.call('HEXISTS', redeemed, mine) == 0 then
  if tonumber(redis.call('HGET', redeemed, code) or 0) >= tonumber(uses) then return { 'refused' } end
  redis.call('HINCRBY', redeemed, code, 1)
  redis.call('HSET', redeemed, mine, 1)
end
return { 'granted', lane }
