--- Take a message from a queue of another system: 1, 2 when another bridge has taken it, 0 when a
--- worker of that system has. The two can be told apart for as long as `taken` is kept.
--- args  holder message:bytes taken keep_ms:int theirs... -> int
--- uses  must_hold check_message take_message
local places = {}
for at = theirs, #ARGV do places[#places + 1] = ARGV[at] end
must_hold('STRLEN', taken)
if not check_message(holder, message, places) then return redis.call('EXISTS', taken) * 2 end
take_message(holder, message, places)
redis.call('SET', taken, '', 'PX', keep_ms)
return 1
