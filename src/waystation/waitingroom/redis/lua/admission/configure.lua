--- Change how the room is set up; its new version.
--- keys  meta state events epoch lottery drawn
--- args  queue event creates version:str|int pepper now:str|int fields... -> int
--- uses  instant_us format_int emit_event
local us = instant_us(now)
local kept = redis.call('HMGET', meta, 'version', 'created_at', 'status', 'events_cap')
local current = kept[1] or '0'
if version ~= '' and version ~= current then
  return redis.error_reply('WRONG_STATE the room is at version ' .. current .. ', not ' .. version)
end
if not kept[2] and creates == '' then
  return redis.error_reply('NOT_FOUND there is no room ' .. queue .. '; it may have been deleted')
end
local given = {}
for at = fields, #ARGV, 2 do given[ARGV[at]] = ARGV[at + 1] end
local over = given.phase == 'prequeue' and redis.call('HEXISTS', lottery, 'digest') == 1
local seconds = format_int(us / 1000000)
if not kept[2] then
  redis.call('HSET', meta, 'created_at', seconds, 'phase', 'open', 'epoch', redis.call('GET', epoch) or 1)
end
redis.call('HSETNX', state, 'pepper', pepper)
-- Those who gather now have nothing to do with the draw that was held, whose seed is public.
if over then
  redis.call('DEL', lottery, drawn)
  redis.call('HDEL', meta, 'commitment')
end
-- A rate holds from now on, whoever writes it, unless the write says how it is reached.
if given.admission_rate and not given.ramp_us then
  redis.call('HDEL', meta, 'ramp_from', 'ramp_us', 'ramp_s')
end
local changes = {}
for at = fields, #ARGV, 2 do
  local name, value = ARGV[at], ARGV[at + 1]
  if value == '' and name ~= 'name' and name ~= 'target_url' then
    redis.call('HDEL', meta, name)
  else
    redis.call('HSET', meta, name, value)
  end
  changes[#changes + 1] = name .. '=' .. value
end
local status = redis.call('HGET', meta, 'status')
if kept[3] ~= status and (status == 'active' or status == 'draining') then
  redis.call('HSET', state, 'resumed_us', format_int(us))
end
redis.call('HSET', meta, 'updated_at', seconds, 'version', current + 1)
redis.call('XADD', events, 'MAXLEN', '~', kept[4] or 10000, '*', 'v', 1, 'line', 'waitingroom',
  'queue', queue, 'event', event, 'at', format_int(us / 1000), 'changed', string.sub(table.concat(changes, ' '), 1, 1000))
return current + 1
