--- Let workers take nothing more from a queue; 0 when they took nothing before.
--- keys  paused
--- args  queue -> bool
--- uses  makes_room
makes_room('SREM', paused)
return redis.call('SADD', paused, queue)
