--- File outcomes away and fetch the next jobs, in one step.
--- Each outcome is its kind and the job's bytes as fetched, its id, lane and attempt, then:
--- completed took; returned nothing; retry payload delay reason; dead payload reason error.
--- The plan has a pair for each lane: its share of what is wanted, and the most it may give.
--- keys  processing heartbeat workers completed dead_letter dead_letter_meta events wake lanes...
--- args  now worker ttl_ms completed_cap events_cap want plan outcomes...
--- uses  instant_ms tell rouse name_and_tries promote_due try_again bury
now = instant_ms(now)
local place = {
  lanes = lanes, events = events, wake = wake,
  dead_letter = dead_letter, dead_letter_meta = dead_letter_meta,
}

local done = {}
local function complete(raw, at)
  done[#done + 1] = raw
  tell(events, now, KEYS[lanes + 2 * (ARGV[at + 1] - 1)], 'completed', ARGV[at], ARGV[at + 2],
    worker, 'took_ms', ARGV[at + 3])
end
local function hand_back(raw, at)
  local queue = KEYS[lanes + 2 * (ARGV[at + 1] - 1)]
  redis.call('RPUSH', queue, raw)
  tell(events, now, queue, 'returned', ARGV[at], ARGV[at + 2], worker)
  rouse(wake)
end

local codes, at = {}, outcomes
while at <= #ARGV do
  local kind, raw = ARGV[at], ARGV[at + 1]
  -- Only what is still in our own list is ours to end; the newest are at the left end.
  local ours = redis.call('LREM', processing, -1, raw) == 1
  codes[#codes + 1] = ours and 0 or 1
  at = at + 2
  if kind == 'completed' then
    if ours then complete(raw, at) end
    at = at + 4
  elseif kind == 'returned' then
    if ours then hand_back(raw, at) end
    at = at + 3
  else
    if ours then (kind == 'retry' and try_again or bury)(place, now, worker, at) end
    at = at + 6
  end
end
if #done > 0 then
  redis.call('LPUSH', completed, unpack(done))
  redis.call('LTRIM', completed, 0, completed_cap - 1)
end

want = tonumber(want)
local fetched, due, left = {}, 0, want
if want > 0 then
  -- Before anything is fetched: an entry without a heartbeat is one that the reaper may take.
  if redis.call('PTTL', heartbeat) < ttl_ms / 2 then
    redis.call('SET', heartbeat, '{"ts":' .. string.format('%.0f', now) .. '}', 'PX', ttl_ms)
    redis.call('SADD', workers, worker)
  end
  local shares, limits = {}, {}
  for share, most in string.gmatch(plan, '(%d+),(%d+)') do
    shares[#shares + 1] = tonumber(share)
    limits[#limits + 1] = tonumber(most)
  end
  local function fetch(lane, most)
    if most < 1 then return end
    local queue = KEYS[lanes + 2 * (lane - 1)]
    local jobs = redis.call('RPOP', queue, most)
    if not jobs or #jobs == 0 then return end
    redis.call('LPUSH', processing, unpack(jobs))
    for _, raw in ipairs(jobs) do
      local id, try = name_and_tries(raw)
      tell(events, now, queue, 'active', id, try, worker)
      fetched[lane][#fetched[lane] + 1] = raw
    end
    left = left - #jobs
  end
  for lane = 1, #shares do
    fetched[lane] = {}
    if limits[lane] > 0 then
      promote_due(KEYS[lanes + 2 * lane - 1], KEYS[lanes + 2 * lane - 2], events, now, 100)
    end
    fetch(lane, math.min(shares[lane], limits[lane], left))
  end
  for lane = 1, #shares do
    if left > 0 then fetch(lane, math.min(limits[lane] - #fetched[lane], left)) end
  end
  for lane = 1, #shares do
    if left == 0 then
      -- There may be more than we can take: let somebody else look.
      if redis.call('LLEN', KEYS[lanes + 2 * lane - 2]) > 0 then
        rouse(wake)
        break
      end
    elseif left == want then
      local first = redis.call('ZRANGE', KEYS[lanes + 2 * lane - 1], 0, 0, 'WITHSCORES')
      if first[2] and (due == 0 or tonumber(first[2]) < due) then due = tonumber(first[2]) end
    end
  end
end
if #codes > 0 or left < want then redis.call('XTRIM', events, 'MAXLEN', '~', events_cap) end
return { codes, fetched, string.format('%.0f', due) }
