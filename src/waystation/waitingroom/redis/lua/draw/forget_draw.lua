--- Forget the last draw once it is over, so that another one may be held.
--- keys  lottery drawn
--- args  -> bool
if redis.call('HEXISTS', lottery, 'digest') == 0 then return 0 end
redis.call('DEL', lottery, drawn)
return 1
