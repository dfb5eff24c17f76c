--- Stop jobs that have not ended; for each 1, or 0 when there is nothing to stop.
--- keys  waiting delayed cron claims routes held stalls fired events
--- keys  active awaited deadletter ended heads leases meta places serial signatures stopped
--- keys  stopping wake unmoved
--- args  namespace now:str|int keep_s:int result:bytes by ids... -> list[int]
--- uses  keys_at instant_ms emit_event index_foreign remove_waiting unindex_jobs claim_of
--- uses  stop_claim note_end release_dependents
--- uses  queue_of text_of check_keys last_data
local line = keys_at(namespace)
now = instant_ms(now)
check_keys(line)
index_foreign(line, now)
local done = {}
for at = ids, #ARGV do
  local id = ARGV[at]
  local route, record = redis.call('HGET', routes, id), redis.call('HGET', claims, id)
  local found = route and text_of(line.status .. id) ~= 'dead'
  if found then
    local signature = string.sub(route, 2)
    if record then
      stop_claim(line, id, claim_of(record))
    elseif redis.call('ZREM', delayed, id) == 0 and redis.call('ZREM', cron, id) == 0
      and redis.call('HDEL', held, id) == 0 then
      remove_waiting(line, id)
      unindex_jobs(line, signature, { id })
    end
    local said = { last_data(line, id) }
    if by ~= '' then said[#said + 1], said[#said + 2] = 'by', by end
    redis.call('DEL', line.data .. id)
    redis.call('HDEL', routes, id)
    redis.call('HDEL', stalls, id)
    redis.call('HDEL', fired, id)
    redis.call('SET', line.result .. id, result, 'EX', keep_s)
    redis.call('SET', line.status .. id, 'failed', 'EX', keep_s)
    redis.call('EXPIRE', line.progress .. id, keep_s)
    emit_event(line, now, 'cancelled', queue_of(signature), id, unpack(said))
    note_end(line, id, 'was cancelled')
  end
  done[#done + 1] = found and 1 or 0
end
release_dependents(line, now, 100)
return done
