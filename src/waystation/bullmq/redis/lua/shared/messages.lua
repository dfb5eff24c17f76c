--- Whether a message of another system is where it was; stops the script, before it has written, when
--- a key is of another type. `places` has the key that holds it, and for a hash the index of it. A
--- `stack` is a list with its oldest message, which is the next to be moved, at the right end.
--- uses  must_hold
local function check_message(holder, message, places)
  if holder == 'list' or holder == 'stack' then
    must_hold('LLEN', places[1])
    return redis.call('LPOS', places[1], message, 'RANK', holder == 'list' and 1 or -1) ~= false
  end
  if holder == 'zset' then
    must_hold('ZCARD', places[1])
    return redis.call('ZSCORE', places[1], message) ~= false
  end
  must_hold('HLEN', places[1])
  must_hold('ZCARD', places[2])
  return redis.call('HEXISTS', places[1], message) == 1
end

--- Remove a message of another system, and what was kept for it alone.
local function take_message(holder, message, places)
  if holder == 'hash' then
    redis.call('HDEL', places[1], message)
    redis.call('ZREM', places[2], message)
    return
  end
  if holder == 'zset' then
    redis.call('ZREM', places[1], message)
  else
    redis.call('LREM', places[1], holder == 'list' and 1 or -1, message)
  end
  for at = 2, #places do redis.call('DEL', places[at]) end
end
