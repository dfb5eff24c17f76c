--- Which of these workers have what jobs of a signature ask for; their places, from 0. Nil when no
--- such job waits any more.
--- keys  heads
--- args  signature:bytes profiles:bytes... -> list[int]|None
--- uses  lacking
if not redis.call('ZSCORE', heads, signature) then return false end
local wanted, places = cjson.decode(signature), {}
for at = profiles, #ARGV do
  if #lacking(wanted, cjson.decode(ARGV[at])) == 0 then places[#places + 1] = at - profiles end
end
return places
