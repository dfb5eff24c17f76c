-- What the document's producer does, step by step: data first, then the list.
redis.call('SET', KEYS[1] .. ARGV[1], ARGV[2])
redis.call(tonumber(ARGV[3]) >= 7 and 'LPUSH' or 'RPUSH', KEYS[2], ARGV[1])
return 1
