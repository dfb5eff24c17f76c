--- Take a message from a queue of another system and add the job that was made of it: its id; 0 when
--- the message is gone, -1 when there is a job with that id. Nothing is moved then.
--- The keys of the other system are arguments, because this runs where they share a server with ours.
--- keys  id meta wait active prioritized delayed marker events pc paused completed failed
--- keys  absent
--- args  base now:str|int holder message:bytes name:bytes data:bytes opts:bytes wants:bytes
--- args  theirs... -> id_or_code
--- as    queue base
--- uses  instant_ms must_hold check_message take_message insert_job events_cap
local places = {}
for at = theirs, #ARGV do places[#places + 1] = ARGV[at] end
local want = cjson.decode(wants)
if not check_message(holder, message, places) then return 0 end
if redis.call('EXISTS', base .. want.id) == 1 then return -1 end
local cap = events_cap(meta)
take_message(holder, message, places)
local added = insert_job(queue, want.id, name, data, opts, want, instant_ms(now), false)
redis.call('XTRIM', events, 'MAXLEN', '~', cap)
return added
