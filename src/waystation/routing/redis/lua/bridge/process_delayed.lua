--- Let delayed jobs wait whose time has come; how many did. The arguments are those of BridgeMQ.
--- Whoever knows them names further keys, so that it waits while a cluster moves the slot.
--- keys  delayed waiting guards...
--- args  now:str|int batch:int=100 -> int
--- uses  keys_at index_foreign promote_due instant_ms check_keys
local line = keys_at(string.match(waiting, '^(.*):jobs:waiting$'))
now = instant_ms(now)
check_keys(line)
index_foreign(line, now)
return promote_due(line, now, batch)
