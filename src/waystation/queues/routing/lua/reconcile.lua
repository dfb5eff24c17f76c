--- Set each type's count of running jobs to what the claims say; the types that were wrong.
--- keys  claims limits terms
--- args  namespace term counted...
--- uses  line_at claim_of fenced
local over = fenced(terms, term)
if over then return over end
local line, running, wrong = line_at(namespace), {}, {}
for _, record in ipairs(redis.call('HVALS', claims)) do
  local claim = claim_of(record)
  if claim.counted then running[claim.queue] = (running[claim.queue] or 0) + 1 end
end
for at = counted, #ARGV do
  local queue = ARGV[at]
  local key, count = line.concurrent .. queue, running[queue] or 0
  if tonumber(redis.call('GET', key) or 0) ~= count then
    wrong[#wrong + 1] = queue
    if count == 0 then redis.call('DEL', key) else redis.call('SET', key, count) end
    redis.call('XADD', line.wake, 'MAXLEN', '~', 64, '*', 'queue', queue)
  end
end
return wrong
