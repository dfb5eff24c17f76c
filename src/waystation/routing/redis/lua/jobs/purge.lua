--- Remove dead jobs for good; how many there were.
--- keys  deadletter meta routes events
--- keys  awaited delayed ended heads held places serial signatures stalls waiting wake unmoved
--- args  namespace now:str|int ids... -> int
--- uses  keys_at instant_ms emit_event remove_dead_letters note_end queue_of
--- uses  release_dependents check_keys
local line = keys_at(namespace)
now = instant_ms(now)
check_keys(line)
line.now = now
local wanted, count = {}, 0
for at = ids, #ARGV do wanted[ARGV[at]] = true end
local found = remove_dead_letters(line, wanted)
for at = ids, #ARGV do
  local id = ARGV[at]
  if found[id] then
    found[id] = nil
    redis.call('HDEL', meta, id)
    local route = redis.call('HGET', routes, id)
    redis.call('DEL', line.data .. id, line.status .. id, line.progress .. id, line.result .. id)
    redis.call('HDEL', routes, id)
    emit_event(line, now, 'removed', route and queue_of(string.sub(route, 2)) or '', id,
      'reason', 'purged')
    note_end(line, id, 'was purged')
    count = count + 1
  end
end
release_dependents(line, now, 100)
return count
