--- Which of these workers there is something to do for, and when to look again.
--- The reply has the place and a signature for each such worker, in turn; how many milliseconds a
--- limit per minute keeps fitting jobs back, and how many until the next delayed job is due; and the
--- last wake-up.
--- keys  waiting places heads signatures serial routes claims wake events deadletter meta delayed
--- keys  limits paused
--- keys  awaited ended stalls unmoved
--- args  namespace now:str|int profiles:bytes... -> look
--- uses  keys_at instant_ms whole index_foreign promote_due match_signatures served_heads queue_of
--- uses  room_for limit_for
--- uses  left_in check_keys
local line = keys_at(namespace)
now = instant_ms(now)
check_keys(line)
index_foreign(line, now)
promote_due(line, now, 100)

local rooms, limited_ms, found = {}, 0, {}

local function has_room(signature)
  local queue = queue_of(signature)
  rooms[queue] = rooms[queue] or room_for(line, queue)
  local left, pause_ms = left_in(line, queue, rooms[queue], limit_for(rooms[queue], signature))
  if pause_ms > 0 and (limited_ms == 0 or pause_ms < limited_ms) then limited_ms = pause_ms end
  return left > 0
end

local function work_for(profile)
  local serves, unread = match_signatures(line, profile)
  local next_head = served_heads(line, serves)
  -- Where so many are held back, or not yet matched, the worker looks for itself.
  for _ = 1, 200 do
    local signature = next_head()
    if not signature then return unread and '' end
    if has_room(signature) then return signature end
  end
  return ''
end

if redis.call('EXISTS', heads) == 1 then
  for at = profiles, #ARGV do
    local signature = work_for(ARGV[at])
    if signature then
      found[#found + 1] = at - profiles
      found[#found + 1] = signature
    end
  end
end
local due = tonumber(redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2])
local newest = redis.call('XREVRANGE', wake, '+', '-', 'COUNT', 1)[1]
return { found, limited_ms, due and whole(math.max(due - now, 1)) or '', newest and newest[1] or '0-0' }
