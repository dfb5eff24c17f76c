--- Store heartbeats of workers; each is its id and description. How many of them were not known
--- before.
--- keys  registered events
--- keys  unmoved
--- args  namespace now:str|int ttl_ms:int workers:str|bytes... -> int
--- uses  keys_at instant_ms makes_room whole emit_event
local line = keys_at(namespace)
now = instant_ms(now)
makes_room('SREM', registered)
local new = 0
for at = workers, #ARGV, 2 do
  local worker = ARGV[at]
  -- The description has an open place for the instant, so that the server's clock fills it.
  local about = string.gsub(ARGV[at + 1], '"lastSeen":0', '"lastSeen":' .. whole(now), 1)
  redis.call('SET', line.workers .. worker, about)
  redis.call('SET', line.heartbeat .. worker, whole(now), 'PX', ttl_ms)
  if redis.call('SADD', registered, worker) == 1 then
    emit_event(line, now, 'joined', '', worker, 'worker', worker, 'about', about)
    new = new + 1
  end
end
return new
