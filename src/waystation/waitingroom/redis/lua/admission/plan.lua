--- Plan an event, unless a room has as many as it may or another at that time.
--- keys  schedule state
--- args  id event seed begins:int ends:int most:int -> bool
local planned = redis.call('HGETALL', schedule)
local others = 0
for at = 1, #planned, 2 do
  if planned[at] ~= id then
    others = others + 1
    local other = cjson.decode(planned[at + 1])
    local from = tonumber(other.gathers_ms) or other.starts_ms
    if tonumber(begins) < other.ends_ms and from < tonumber(ends) then
      local name = other.name ~= '' and other.name or planned[at]
      return redis.error_reply("WRONG_STATE at that time there is '" .. name .. "' already")
    end
  end
end
if others >= tonumber(most) then
  return redis.error_reply('INVALID_OPTION a room may have ' .. most .. ' events planned')
end
redis.call('HSET', schedule, id, event)
if seed ~= '' then redis.call('HSETNX', state, 'seed:' .. id, seed) end
return 1
