--- Forget workers that have been silent for long and signatures that nobody asks for.
--- keys  registered signatures heads claims terms events
--- keys  unmoved
--- args  namespace now:str|int term:int silent_ms:int batch:int cursor:int workers... -> page
--- uses  keys_at instant_ms emit_event fenced whole
local line = keys_at(namespace)
now = instant_ms(now)
local over = fenced(terms, term)
if over then return over end
local gone = {}
for at = workers, #ARGV do
  local worker = ARGV[at]
  if redis.call('SISMEMBER', registered, worker) == 1 and redis.call('EXISTS', line.heartbeat .. worker) == 0 then
    local about = redis.call('GET', line.workers .. worker)
    local seen = about and tonumber(string.match(about, '"lastSeen":(%d+)')) or 0
    if now - seen >= tonumber(silent_ms) then
      redis.call('DEL', line.workers .. worker)
      redis.call('SREM', registered, worker)
      emit_event(line, now, 'lost', '', worker, 'worker', worker)
      gone[#gone + 1] = worker
    end
  end
end
local page = redis.call('ZSCAN', signatures, cursor, 'COUNT', batch)
for at = 1, #page[2], 2 do
  if not redis.call('ZSCORE', heads, page[2][at]) then
    redis.call('ZREM', signatures, page[2][at])
  end
end
return { gone, page[1] }
