--- Take back jobs that others have claimed with plain commands and whose lock is over.
--- keys  active claims terms events
--- keys  awaited deadletter delayed ended heads meta places routes serial signatures stalls
--- keys  waiting wake unmoved
--- args  namespace now:str|int term:int batch:int cursor:int -> page
--- uses  keys_at instant_ms emit_event fenced index_foreign push_waiting route_of
--- uses  dead_letter_unreadable queue_of
--- uses  is_waiting lock_left check_keys
local line = keys_at(namespace)
now = instant_ms(now)
local over = fenced(terms, term)
if over then return over end
check_keys(line)
index_foreign(line, now)
local page, taken = redis.call('SSCAN', active, cursor, 'COUNT', batch), {}
for _, id in ipairs(page[2]) do
  if redis.call('HEXISTS', claims, id) == 0 and not lock_left(line, id)
    and redis.call('SREM', active, id) == 1 then
    local route, why = route_of(line, id)
    if redis.call('EXISTS', line.data .. id) == 0 then route, why = nil, 'gone' end
    if route and not is_waiting(line, id, string.sub(route, 2)) then
      local queue = queue_of(string.sub(route, 2))
      push_waiting(line, id, route)
      emit_event(line, now, 'stalled', queue, id, 'reason', 'lock')
      emit_event(line, now, 'waiting', queue, id, 'prev', 'stalled')
      taken[#taken + 1] = id
    elseif not route then
      dead_letter_unreadable(line, now, id, why)
    end
  end
end
return { taken, page[1] }
