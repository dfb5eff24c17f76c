--- Store outcomes and fetch the next jobs, in one step.
--- Each outcome is its kind and the job's bytes as fetched, its id, lane and attempt, then:
--- completed took; returned and skipped nothing; retry payload delay reason error; dead payload
--- reason error. The plan has a pair for each lane: its share of what is wanted, and the most it may give.
--- Picks are unmatched entries that the worker has a handler for, each a lane and an id; it has
--- read the entries up to the cursor.
--- keys  processing heartbeat workers completed dead_letter dead_letter_meta events wake unmatched
--- keys  paused history lanes...
--- args  now:str|int worker ttl_ms:int completed_cap:int events_cap:int want:int plan picks cursor
--- args  outcomes:str|bytes|int... -> settlement
--- unchecked  history
--- uses  instant_ms check_lanes emit_event id_and_attempt newest_id last_data
--- lazy  wake_worker promote_due retry_later add_dead_letter makes_room take_unmatched
check_lanes(lanes)
now, want, completed_cap = instant_ms(now), tonumber(want), tonumber(completed_cap)
local context = {
  lanes = lanes, events = events, events_cap = events_cap, wake = wake,
  at = string.format('%.0f', now),
  dead_letter = dead_letter, dead_letter_meta = dead_letter_meta, history = history,
}

local newest = newest_id(unmatched)
local done, codes, at, is_retried = {}, {}, outcomes, false
while at <= #ARGV do
  local kind, raw = ARGV[at], ARGV[at + 1]
  local id, queue, attempt = ARGV[at + 2], KEYS[lanes + 2 * (ARGV[at + 3] - 1)], ARGV[at + 4]
  -- Only jobs that are still in the worker's list may be settled; the newest are at the left end.
  local ours = redis.call('LREM', processing, -1, raw) == 1
  codes[#codes + 1] = ours and 0 or 1
  if kind == 'completed' then
    if ours then
      done[#done + 1] = raw
      emit_event(context, queue, 'completed', id, attempt, worker, 'took_ms', ARGV[at + 5],
        last_data(context, raw))
    end
    at = at + 6
  elseif kind == 'skipped' then
    if ours then
      local id_there = redis.call('XADD', unmatched, '*', 'job', raw, 'lane', ARGV[at + 3])
      -- A worker that had read everything need not read what it adds itself.
      if cursor == newest then cursor = id_there end
      newest = id_there
      emit_event(context, queue, 'returned', id, attempt, worker)
      lazy().wake_worker(wake)
    end
    at = at + 5
  elseif kind == 'returned' then
    if ours then
      redis.call('RPUSH', queue, raw)
      emit_event(context, queue, 'returned', id, attempt, worker)
      lazy().wake_worker(wake)
    end
    at = at + 5
  else
    local step = kind == 'retry' and 'retry_later' or 'add_dead_letter'
    if ours then
      lazy()[step](context, now, worker, at + 2)
      is_retried = is_retried or kind == 'retry'
    end
    at = at + (kind == 'retry' and 9 or 8)
  end
end
if #done > 0 and completed_cap > 0
  and redis.call('LPUSH', completed, unpack(done)) > completed_cap then
  redis.call('LTRIM', completed, 0, completed_cap - 1)
end
if want == 0 then
  -- This worker has no room for the retry, so an idle one has to learn when it is due.
  if is_retried then lazy().wake_worker(wake) end
  return { codes, {}, '0', {}, newest, cursor }
end

-- Before anything is fetched, because the reaper takes jobs of a worker without a heartbeat.
if redis.call('PTTL', heartbeat) < ttl_ms / 2 then
  lazy().makes_room('SREM', workers)
  -- The patterns of its handlers stay as the last renewal wrote them.
  local known = redis.pcall('GET', heartbeat)
  local handlers = type(known) == 'string' and string.match(known, ',"handlers":.*') or '}'
  redis.call('SET', heartbeat, '{"ts":' .. context.at .. handlers, 'PX', ttl_ms)
  redis.call('SADD', workers, worker)
end

local shares, limits, fetched, drained, picked, tried = {}, {}, {}, {}, {}, {}
for share, most in string.gmatch(plan, '(%d+),(%d+)') do
  shares[#shares + 1] = tonumber(share)
  limits[#limits + 1] = tonumber(most)
  fetched[#fetched + 1], picked[#picked + 1], tried[#tried + 1] = {}, {}, 0
end
for lane, id in string.gmatch(picks, '(%d+),(%d+%-%d+)') do
  table.insert(picked[tonumber(lane)], id)
end
local left, due_in, is_paused = want, 0, {}
for _, queue in ipairs(redis.call('SMEMBERS', paused)) do is_paused[queue] = true end
local function fetch(lane, most)
  local queue, into = KEYS[lanes + 2 * (lane - 1)], fetched[lane]
  if most < 1 or drained[lane] or is_paused[queue] then return end
  -- Unmatched files have waited for longer than those in the queue.
  local jobs, taken = {}, 0
  while tried[lane] < #picked[lane] and taken < most do
    tried[lane] = tried[lane] + 1
    jobs[#jobs + 1] = lazy().take_unmatched(unmatched, picked[lane][tried[lane]])
    taken = #jobs
  end
  if taken < most then
    for _, raw in ipairs(redis.call('RPOP', queue, most - taken) or {}) do jobs[#jobs + 1] = raw end
  end
  drained[lane] = #jobs < most
  if #jobs == 0 then return end
  redis.call('LPUSH', processing, unpack(jobs))
  for _, raw in ipairs(jobs) do
    local id, try = id_and_attempt(raw)
    emit_event(context, queue, 'active', id, try, worker)
    into[#into + 1] = raw
  end
  left = left - #jobs
end
local function fetch_the_rest()
  for lane = 1, #shares do fetch(lane, math.min(limits[lane] - #fetched[lane], left)) end
end

for lane = 1, #shares do fetch(lane, math.min(shares[lane], limits[lane], left)) end
fetch_the_rest()
if left > 0 then
  -- Upkeep promotes retries every second; a worker with room need not wait for it.
  for lane = 1, #shares do
    if limits[lane] > 0 and lazy().promote_due(context, lanes + 2 * (lane - 1), now, 100) > 0 then
      drained[lane] = false
    end
  end
  fetch_the_rest()
end
if left > 0 then
  for lane = 1, #shares do
    local first = redis.call('ZRANGE', KEYS[lanes + 2 * lane - 1], 0, 0, 'WITHSCORES')
    -- How long, not when: a worker's clock may be another.
    local pause = first[2] and math.max(tonumber(first[2]) - now, 1)
    if pause and (due_in == 0 or pause < due_in) then due_in = pause end
  end
elseif redis.call('LLEN', wake) == 0 then
  -- There may be more jobs than this worker can take: wake another.
  local is_more = is_retried
  for lane = 1, #shares do
    local queue = KEYS[lanes + 2 * (lane - 1)]
    is_more = is_more or not is_paused[queue] and redis.call('LLEN', queue) > 0
  end
  if is_more then lazy().wake_worker(wake) end
end
return { codes, fetched, string.format('%.0f', due_in), tried, newest, cursor }
