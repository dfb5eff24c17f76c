--- Append entries to a stream, each a list of names and values as JSON.
--- A stream with more than `most` entries is trimmed to about that many; 0 means no limit.
--- keys  stream
--- args  most entries...
local read, ids = {}, {}
for at = entries, #ARGV do read[#read + 1] = cjson.decode(ARGV[at]) end
for nth, fields in ipairs(read) do
  if tonumber(most) > 0 then
    ids[nth] = redis.call('XADD', stream, 'MAXLEN', '~', most, '*', unpack(fields))
  else
    ids[nth] = redis.call('XADD', stream, '*', unpack(fields))
  end
end
return ids
