--- Let delayed jobs wait whose time has come; how many did. The arguments are those of BridgeMQ.
--- keys  delayed waiting
--- args  now batch
--- uses  line_at adopt promote_due instant_ms check_line
local line = line_at(string.match(waiting, '^(.*):jobs:waiting$'))
now = instant_ms(now)
check_line(line)
adopt(line, now)
return promote_due(line, now, batch)
