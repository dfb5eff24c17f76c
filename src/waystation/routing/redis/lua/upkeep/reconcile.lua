--- Set the count of running jobs, of these types and of all that run under a limit, to what the
--- claims say; the types that were wrong.
--- keys  claims stopping limits terms
--- keys  wake unmoved
--- args  namespace term:int counted... -> texts
--- uses  keys_at fenced wake_for
local over = fenced(terms, term)
if over then return over end
local line, running, wrong = keys_at(namespace), {}, {}
for _, record in ipairs(redis.call('HVALS', claims)) do
  -- Only what counts is read of a claim, because all of them must be seen in one instant.
  local size, names = string.match(record, '^%S+ 1 %S+ %S+ (%d+) (.*)$')
  local queue = size and string.sub(names, size + 2)
  if queue then running[queue] = (running[queue] or 0) + 1 end
end
-- Handlers of cancelled jobs that have not ended yet.
for _, told in ipairs(redis.call('HVALS', stopping)) do
  local queue = string.match(told, '^%S+ %d+ (.*)$')
  if queue then running[queue] = (running[queue] or 0) + 1 end
end
for at = counted, #ARGV do running[ARGV[at]] = running[ARGV[at]] or 0 end
local types = {}
for queue in pairs(running) do types[#types + 1] = queue end
table.sort(types)
for _, queue in ipairs(types) do
  local key, count = line.concurrent .. queue, running[queue]
  if tonumber(redis.call('GET', key) or 0) ~= count then
    wrong[#wrong + 1] = queue
    if count == 0 then redis.call('DEL', key) else redis.call('SET', key, count) end
    wake_for(line, queue)
  end
end
return wrong
