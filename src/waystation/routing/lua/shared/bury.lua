--- Set a job aside in the dead letter list, with the reason; the oldest there makes room.
--- uses  tell whole queue_of number_or text_of
local function bury(line, now, id, queue, meta, worker, attempt)
  redis.call('LPUSH', line.deadletter, id)
  redis.call('HSET', line.meta, id, meta)
  redis.call('SET', line.status .. id, 'dead')
  local read, why = pcall(cjson.decode, meta)
  tell(line, now, 'dead', queue, id, 'worker', worker, 'attempt', attempt,
    'reason', read and why.reason or 'unknown')
  local most = number_or(10000, text_of(line.deadletter .. ':cap'))
  while redis.call('LLEN', line.deadletter) > most do
    local oldest = redis.call('RPOP', line.deadletter)
    local route = redis.call('HGET', line.routes, oldest)
    redis.call('DEL', line.data .. oldest, line.status .. oldest, line.progress .. oldest)
    redis.call('HDEL', line.meta, oldest)
    redis.call('HDEL', line.routes, oldest)
    tell(line, now, 'removed', route and queue_of(string.sub(route, 2)) or '', oldest,
      'reason', 'the dead letter list is full')
  end
end
