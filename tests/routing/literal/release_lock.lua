-- The document's algorithm, word for word.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('SREM', KEYS[2], ARGV[2])
  redis.call('DECR', KEYS[3])
  return 1
end
return 0
