--- Look how far the next entries of a stream reach, without sending them.
--- The reply has the last of their ids ('' when there is none), how many they are, and how many
--- entries were added to the stream and are gone.
--- keys  stream
--- args  after count
local info, told = redis.call('XINFO', 'STREAM', stream), {}
for at = 1, #info, 2 do told[info[at]] = info[at + 1] end
local entries = redis.call('XRANGE', stream, '(' .. after, '+', 'COUNT', count)
local gone = told['entries-added'] and told['entries-added'] - told['length'] or -1
if #entries == 0 then return { '', 0, gone } end
return { entries[#entries][1], #entries, gone }
