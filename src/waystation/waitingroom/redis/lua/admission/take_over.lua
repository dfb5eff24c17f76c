--- Take over a session that was handed to a site, once and on the host it was meant for.
--- keys  handover sessions_expiry
--- args  host now:str|int -> taken
--- uses  instant_us format_int
local kept = redis.call('GET', handover)
if not kept then return { 'refused' } end
local meant, id, owner = string.match(kept, '^([^\n]*)\n([^\n]*)\n(.*)$')
if meant ~= host then return { 'refused' } end
redis.call('DEL', handover)
local ends = redis.call('ZSCORE', sessions_expiry, id)
if not ends or tonumber(ends) <= instant_us(now) then return { 'refused' } end
return { 'taken', id, owner, format_int(ends / 1000) }
