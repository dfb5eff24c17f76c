--- Find the last id of the next entries of a stream, without sending them.
--- The reply has the last of their ids ('' when there is none), how many they are, and how many
--- entries were added to the stream and are gone.
--- keys  stream
--- args  after count:int -> reach
local info, facts = redis.call('XINFO', 'STREAM', stream), {}
for at = 1, #info, 2 do facts[info[at]] = info[at + 1] end
local entries = redis.call('XRANGE', stream, '(' .. after, '+', 'COUNT', count)
local gone = facts['entries-added'] and facts['entries-added'] - facts['length'] or -1
if #entries == 0 then return { '', 0, gone } end
return { entries[#entries][1], #entries, gone }
