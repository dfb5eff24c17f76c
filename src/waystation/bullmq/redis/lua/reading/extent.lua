--- Read how many events there have been, and which are kept.
--- The reply: how many were ever emitted (-1 where the server does not count), how many are kept, the
--- first id kept, the last id ever given ('' for none), and how many are kept behind `after`, if
--- one is given (-1 when they are more than `most`, which are not counted).
--- keys  events
--- args  after= most:int=20000 -> extent
if redis.call('EXISTS', events) == 0 then return { 0, 0, '', '', 0 } end
local info, stream = redis.call('XINFO', 'STREAM', events), {}
for at = 1, #info, 2 do stream[info[at]] = info[at + 1] end
local first = stream['first-entry']
local behind = stream['length']
if after ~= '' then
  local from = '(' .. after
  if #redis.call('XRANGE', events, from, '+', 'COUNT', 1) == 0 then
    behind = 0
  elseif behind > tonumber(most) then
    behind = -1
  else
    behind = #redis.call('XRANGE', events, from, '+')
  end
end
return {
  stream['entries-added'] or -1,
  stream['length'],
  first and first[1] or '',
  stream['last-generated-id'],
  behind,
}
