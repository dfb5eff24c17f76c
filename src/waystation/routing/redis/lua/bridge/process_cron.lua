--- Fire the schedules that are due, each slot once however often this is called; a JSON list of
--- those that need a next time. The arguments are those of BridgeMQ.
--- keys  cron waiting data_prefix
--- args  now:str|int batch:int=100 -> Any
--- uses  keys_at index_foreign fire_slot instance_data route_of instant_ms whole text_of check_keys
local line = keys_at(string.match(waiting, '^(.*):jobs:waiting$'))
now = instant_ms(now)
check_keys(line)
index_foreign(line, now)
local due = redis.call('ZRANGEBYSCORE', cron, 0, whole(now), 'WITHSCORES', 'LIMIT', 0, batch)
local texts = {}
for at = 1, #due, 2 do
  local id, slot = due[at], whole(tonumber(due[at + 1]))
  local data, route = text_of(data_prefix .. id), route_of(line, id)
  local read, job = pcall(cjson.decode, data or '')
  if read and type(job) == 'table' and route then
    local schedule = type(job.schedule) == 'table' and job.schedule or {}
    local changed = instance_data(data, id, id .. ':' .. slot)
    if changed then fire_slot(line, now, id, slot, route, changed, schedule.overlap or 'allow') end
    local zone = type(schedule.timezone) == 'string' and schedule.timezone or 'UTC'
    texts[#texts + 1] = '{"jobId":' .. cjson.encode(id) .. ',"cronExpression":'
      .. cjson.encode(tostring(schedule.cron)) .. ',"timezone":' .. cjson.encode(zone) .. '}'
  else
    redis.call('ZREM', cron, id)
  end
end
return '[' .. table.concat(texts, ',') .. ']'
