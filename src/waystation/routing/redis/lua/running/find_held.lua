--- Find the jobs that were claimed under these tokens, for a worker whose answer was lost.
--- The reply has an id, a token and the JSON of each, and where to go on.
--- keys  claims unmoved
--- args  namespace batch:int cursor:int tokens... -> tuple[list[bytes], bytes]
--- uses  keys_at claim_of
local line, ours, found = keys_at(namespace), {}, {}
for at = tokens, #ARGV do ours[ARGV[at]] = true end
local page = redis.call('HSCAN', claims, cursor, 'COUNT', batch)
local records = page[2]
for at = 1, #records, 2 do
  local id, token = records[at], claim_of(records[at + 1]).token
  local data = ours[token] and redis.call('GET', line.data .. id)
  if data then
    found[#found + 1] = id
    found[#found + 1] = token
    found[#found + 1] = data
  end
end
return { found, page[1] }
