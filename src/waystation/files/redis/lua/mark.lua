--- Leave a mark among the files that are remembered; 1 when it was there, so that what its owner
--- knows of them still holds: the page was not turned since, nor thrown away.
--- keys  seen seen_before
--- args  remember_ms name
--- uses  rotate_seen
rotate_seen(seen, seen_before, tonumber(remember_ms))
local is_new = redis.call('SADD', seen, name)
rotate_seen(seen, seen_before, tonumber(remember_ms))
return 1 - is_new
