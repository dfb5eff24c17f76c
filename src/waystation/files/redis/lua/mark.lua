--- Add a mark to the remembered files; 1 when it was there: the memory was neither rotated nor
--- deleted since.
--- keys  seen seen_before
--- args  remember_ms:int name -> bool
--- uses  rotate_seen
rotate_seen(seen, seen_before, tonumber(remember_ms))
local is_new = redis.call('SADD', seen, name)
rotate_seen(seen, seen_before, tonumber(remember_ms))
return 1 - is_new
