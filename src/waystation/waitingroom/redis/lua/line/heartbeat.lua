--- Note that people in line are still there, and how things stand for each of them.
--- keys  meta positions elevated vip premium prequeue early_elevated early_vip early_premium
--- keys  recovered admitted missed sessions_expiry heartbeat theirs...
--- args  now:str|int people:str|int... -> beats
--- as    room
--- uses  instant_us must_hold format_int visitor_status record_seconds
local set = redis.call('HMGET', meta, 'phase', 'starts_us', 'missed_s', 'idle_s')
local us = instant_us(now)
local seconds = math.floor(us / 1000000)
room.now, room.phase, room.missed_s = us, set[1], tonumber(set[3]) or 600
room.starts = set[2] and format_int(set[2] / 1000)
room.upper, room.early = { elevated, vip, premium }, { early_elevated, early_vip, early_premium }

for key = theirs, #KEYS, 2 do
  must_hold('HLEN', KEYS[key])
  must_hold('STRLEN', KEYS[key + 1])
end

local heard, kept_s = {}, {}
local function hear(id, leaving_s, proof, position, owner)
  if proof ~= '' then
    local known = redis.call('HGET', position, 'proof')
    if known and known ~= proof then return { 'forbidden' } end
  end
  local found = visitor_status(room, id)
  local waits = found[1] == 'waiting' or found[1] == 'returned' or found[1] == 'prequeued'
  if not waits and found[1] ~= 'called' and found[1] ~= 'late' then return found end
  local early = found[1] == 'prequeued'
  kept_s[early] = kept_s[early] or record_seconds(room, early)
  local ttl = kept_s[early]
  -- A hash that is gone must not come back: what is made now would never be forgotten.
  if redis.call('EXPIRE', position, ttl) == 1 then
    redis.call('HSET', position, 'last_heartbeat', format_int(seconds))
  end
  if redis.call('GET', owner) == id then redis.call('EXPIRE', owner, ttl) end
  -- Of the others only those who wait can fall silent.
  if early or not waits then return found end
  -- Whoever closes the page may come back, but has less time to do so.
  local last = seconds
  if leaving_s ~= '' then
    last = seconds - math.max(0, (tonumber(set[4]) or 300) - tonumber(leaving_s))
  end
  heard[#heard + 1], heard[#heard + 2] = format_int(last), id
  return found
end

local answers = {}
local key = theirs
for at = people, #ARGV, 3 do
  answers[#answers + 1] = hear(ARGV[at], ARGV[at + 1], ARGV[at + 2], KEYS[key], KEYS[key + 1])
  key = key + 2
end
if #heard > 0 then redis.call('ZADD', heartbeat, unpack(heard)) end
return answers
