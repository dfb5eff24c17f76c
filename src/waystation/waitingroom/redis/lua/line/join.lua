--- Give each newcomer a place in line, or the one they have; in the order they stand here.
--- keys  meta state positions elevated vip premium prequeue early_elevated early_vip early_premium
--- keys  normal_list elevated_list vip_list premium_list recovered admitted missed heartbeat
--- keys  sessions sessions_expiry sessions_began events stats theirs...
--- args  queue now:str|int model newcomers:str|int... -> list[list[Any]]
--- as    room queue
--- uses  instant_us must_hold format_int emit_event count lane_lengths count_newcomer
--- uses  record_seconds
--- lazy  visitor_status begin_session
local set = redis.call('HMGET', meta, 'status', 'queueing_method', 'max_queue_size', 'phase',
  'starts_us', 'fail_open_us', 'newcomers_per_minute', 'missed_s', 'session_s', 'events_cap',
  'strict_lanes')
-- Of a room that has been deleted meanwhile nothing may come back.
if not set[1] and not set[4] then
  local answers = {}
  for at = newcomers, #ARGV, 10 do answers[#answers + 1] = { 'refused', 'closed', 0 } end
  return answers
end
local us = instant_us(now)
local seconds = format_int(us / 1000000)
room.now, room.phase, room.cap, room.missed_s, room.session_s =
  us, set[4], set[10], tonumber(set[8]) or 600, set[9]
room.starts = set[5] and format_int(set[5] / 1000)
room.upper, room.early = { elevated, vip, premium }, { early_elevated, early_vip, early_premium }
local status, method, phase = set[1] or 'active', set[2], set[4]
local most, per_minute = tonumber(set[3]) or 0, tonumber(set[7]) or 0
local open_to_all = method == 'passthrough' or (tonumber(set[6]) or 0) > us
local ttl = record_seconds(room, phase == 'prequeue')

-- Before anything is written: whoever's keys are of another type must not stop it half way.
local key = theirs
for at = newcomers, #ARGV, 10 do
  must_hold('HLEN', KEYS[key])
  must_hold('STRLEN', KEYS[key + 1])
  if open_to_all then must_hold('HLEN', KEYS[key + 2]) end
  local networks = tonumber(ARGV[at + 9])
  for nth = 1, per_minute > 0 and networks or 0 do must_hold('ZCARD', KEYS[key + 2 + nth]) end
  key = key + 3 + networks
end

local inside = redis.call('SCARD', sessions)
local remembered = redis.call('HMGET', state, 'last_us', 'placed')
local early = redis.call('ZCARD', prequeue)
-- While lots are drawn, some of the pre-queue stand in line already.
local total = redis.call('ZCARD', positions) + early - (tonumber(remembered[2]) or 0)
local lengths = lane_lengths(positions, room.upper)
room.lengths = lengths
local lists = { [0] = normal_list, elevated_list, vip_list, premium_list }
-- A clock that never stands still or steps back: nobody shares a score, nobody overtakes by it.
local last = tonumber(remembered[1]) or 0
local before = total

local function refuse(one, reason, retry_ms)
  count(stats, 'total_refused', 1)
  emit_event(room, 'refused', one.id, 'reason', reason, 'lane', one.lane, 'network', one.network)
  return { 'refused', reason, retry_ms or 0 }
end

local function describe(one, word, lasts)
  redis.call('HSET', one.position, 'queue_id', queue, 'status', word, 'priority', one.lane,
    'enqueued_at', seconds, 'last_heartbeat', seconds, 'ip_hash', one.visitor,
    'ua_hash', one.agent, 'proof', one.proof)
  if one.metadata ~= '' then redis.call('HSET', one.position, 'metadata', one.metadata) end
  redis.call('EXPIRE', one.position, lasts)
  redis.call('SET', one.owner, one.id, 'EX', lasts)
end

-- Those who come together are put in line together: it takes fewer calls, and neighbours in line lie
-- side by side in memory, where whoever asks for a rank comes by many of them.
local placed = {}
local function put_in_line()
  for lane, people in pairs(placed) do
    redis.call('RPUSH', lists[lane], unpack(people.ids))
    redis.call('ZADD', positions, unpack(people.scores))
    if lane > 0 then redis.call('ZADD', room.upper[lane], unpack(people.scores)) end
    redis.call('ZADD', heartbeat, unpack(people.heard))
  end
  placed = {}
end

local function admit_to_line(one)
  local kept = redis.call('GET', one.owner)
  if kept then
    put_in_line()
    local found = lazy().visitor_status(room, kept)
    if found[1] ~= 'gone' then return { 'kept', kept, unpack(found) } end
  end
  if method == 'reject' then return refuse(one, 'rejected') end
  if status == 'maintenance' or status == 'draining' or status == 'closed' or status == 'sold_out' then
    return refuse(one, status)
  end
  if open_to_all then
    describe(one, 'active', tonumber(set[9]) or 3600)
    room.session = one.session
    local ends = lazy().begin_session(room, one.id)
    count(stats, 'total_passed', 1)
    emit_event(room, 'claimed', one.id, 'lane', one.lane, 'reason', 'passed', 'network', one.network)
    return { 'passed', one.id, format_int(ends / 1000) }
  end
  if most > 0 and total >= most then return refuse(one, 'full') end
  if per_minute > 0 then
    local retry_ms = count_newcomer(one.networks, us, one.id, per_minute * one.times)
    if retry_ms then return refuse(one, 'crowded', retry_ms) end
  end

  last = math.max(us, last + 1)
  total = total + 1
  local score, lane = format_int(last), tonumber(one.lane)
  describe(one, 'waiting', ttl)
  if phase == 'prequeue' then
    redis.call('ZADD', prequeue, score, one.id)
    if lane > 0 then redis.call('ZADD', room.early[lane], score, one.id) end
    emit_event(room, 'delayed', one.id, 'lane', lane, 'seq', score, 'network', one.network,
      'agent', one.agent)
    early = early + 1
    return { 'joined', one.id, 'prequeued', lane, room.starts or '', early, early - 1 }
  end
  placed[lane] = placed[lane] or { ids = {}, scores = {}, heard = {} }
  local ids, scores, heard = placed[lane].ids, placed[lane].scores, placed[lane].heard
  ids[#ids + 1] = one.id
  scores[#scores + 1], scores[#scores + 2] = score, one.id
  heard[#heard + 1], heard[#heard + 2] = seconds, one.id
  local ahead = lengths[lane]
  lengths[lane] = ahead + 1
  local first = ahead
  for other = lane + 1, set[11] == '1' and 3 or 0 do first = first + lengths[other] end
  emit_event(room, 'waiting', one.id, 'lane', lane, 'seq', score, 'ahead', first, 'waiting', total,
    'active', inside, 'rate', one.rate, 'model', model, 'network', one.network, 'agent', one.agent)
  if phase == 'drawing' then
    return { 'joined', one.id, 'prequeued', lane, room.starts or '', early, early }
  end
  return { 'joined', one.id, 'waiting', lane, score, ahead, ahead + 1 }
end

local answers = {}
key = theirs
for at = newcomers, #ARGV, 10 do
  local networks = {}
  for nth = 1, tonumber(ARGV[at + 9]) do networks[nth] = KEYS[key + 2 + nth] end
  answers[#answers + 1] = admit_to_line({
    id = ARGV[at], lane = ARGV[at + 1], proof = ARGV[at + 2], visitor = ARGV[at + 3],
    agent = ARGV[at + 4], network = ARGV[at + 5], metadata = ARGV[at + 6], rate = ARGV[at + 7],
    times = tonumber(ARGV[at + 8]), networks = networks,
    position = KEYS[key], owner = KEYS[key + 1], session = KEYS[key + 2],
  })
  key = key + 3 + #networks
end
put_in_line()
if total > before then
  redis.call('HSET', state, 'last_us', format_int(last))
  count(stats, 'total_enqueued', total - before)
  if total > tonumber(redis.call('HGET', stats, 'peak_queue_size') or 0) then
    redis.call('HSET', stats, 'peak_queue_size', total)
  end
end
return answers
