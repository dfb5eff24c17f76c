--- Enter a waiting job under its signature, at its turn.
--- uses  whole queue_of wake_for
local function index_job(line, id, signature, turn)
  redis.call('ZADD', line.ids .. signature, whole(turn), id)
  -- It leads its signature when it is the first there, or now stands before the first.
  if redis.call('ZADD', line.heads, 'LT', 'CH', whole(turn), signature) == 1 then
    redis.call('ZADD', line.signatures, 'NX', whole(redis.call('INCR', line.serial)), signature)
    wake_for(line, queue_of(signature), signature)
  end
end
