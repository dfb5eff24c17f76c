--- Go on with jobs that waited for one that has ended; how many went on, and where both looks go
--- on.
--- keys  awaited ended held routes terms events
--- keys  deadletter delayed heads meta places serial signatures stalls waiting wake unmoved
--- args  namespace now:str|int term:int batch:int cursor:str|int
--- args  routes_cursor:str|int -> tuple[int, bytes, bytes]
--- uses  keys_at instant_ms fenced check_keys text_of note_end release_dependents
local line = keys_at(namespace)
now = instant_ms(now)
local over = fenced(terms, term)
if over then return over end
check_keys(line)
line.now = now

if cursor ~= '' then
  local page = redis.call('SSCAN', awaited, cursor, 'COUNT', batch)
  for _, id in ipairs(page[2]) do
    local status = text_of(line.status .. id)
    if status == 'completed' then
      note_end(line, id, '')
    elseif status ~= 'active' and redis.call('EXISTS', line.data .. id) == 0 then
      note_end(line, id, 'is gone')
    end
  end
  cursor = page[1]
end
if routes_cursor ~= '' then
  local page = redis.call('HSCAN', routes, routes_cursor, 'COUNT', batch)
  for at = 1, #page[2], 2 do
    local id = page[2][at]
    local status = text_of(line.status .. id)
    if (status == 'completed' or not status) and redis.call('EXISTS', line.data .. id) == 0 then
      redis.call('HDEL', routes, id)
      redis.call('HDEL', line.stalls, id)
    end
  end
  routes_cursor = page[1]
end
return { release_dependents(line, now, tonumber(batch)), cursor, routes_cursor }
