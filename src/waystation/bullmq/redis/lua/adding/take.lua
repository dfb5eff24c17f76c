--- Take a message from a queue of another system: 1, or 0 when it is gone.
--- args  holder message theirs...
--- uses  check_message take_message
local places = {}
for at = theirs, #ARGV do places[#places + 1] = ARGV[at] end
if not check_message(holder, message, places) then return 0 end
take_message(holder, message, places)
return 1
