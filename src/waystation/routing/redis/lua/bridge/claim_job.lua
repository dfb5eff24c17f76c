--- Claim the next job that fits a worker; its JSON, or nil. The arguments are those of BridgeMQ.
--- keys  waiting active paused
--- args  worker stack capabilities region now:str|int lock_ttl:int data_prefix lock_prefix
--- args  limit_prefix -> Any
--- uses  keys_at index_foreign promote_due claim_jobs instant_ms check_keys
local line = keys_at(string.match(waiting, '^(.*):jobs:waiting$'))
now = instant_ms(now)
for _, given in ipairs({ stack, capabilities, region }) do
  local read, list = pcall(cjson.decode, given)
  if not read or type(list) ~= 'table' then
    return redis.error_reply('INVALID_OPTION wanted a JSON list of names, got ' .. given)
  end
end
check_keys(line)
index_foreign(line, now)
promote_due(line, now, 100)
-- Lists that are empty must stay lists, so the texts are joined and not written anew.
local profile = '{"server":' .. cjson.encode(worker) .. ',"stack":' .. stack .. ',"capabilities":'
  .. capabilities .. ',"region":' .. region .. ',"types":[]}'
local time = redis.call('TIME')
local token = 'foreign.' .. time[1] .. time[2] .. '.' .. redis.call('INCR', line.serial)
local claimed = claim_jobs(line, now, profile, worker, 1, token, lock_ttl * 1000)
return claimed[2] or false
