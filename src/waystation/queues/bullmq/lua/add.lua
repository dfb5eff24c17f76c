--- Put jobs into the line; each is a name, data, options, and what else it wants as JSON or ''.
--- Wants: id timestamp delay priority lifo parent_key parent scheduler deduplication.
--- The reply has an id for each job, or a number below zero that says why it was refused.
--- keys  id meta wait active prioritized delayed marker events pc paused completed failed
--- args  base now jobs...
--- uses  now_ms waiting_list is_held_back enqueue_job link_parent
local queue = {
  base = base, meta = meta, wait = wait, active = active, prioritized = prioritized,
  delayed = delayed, marker = marker, events = events, pc = pc, paused = paused,
  completed = completed, failed = failed,
}
now = now_ms(now)
local many = (#ARGV - jobs + 1) / 4
local first_number = redis.call('INCRBY', id, many) - many
local cap = redis.call('HGET', meta, 'opts.maxLenEvents')
if not cap then
  cap = 10000
  redis.call('HSET', meta, 'opts.maxLenEvents', cap)
end
local list = waiting_list(queue)
local ready, ids = {}, {}

local function store(job_id, at, timestamp, delay, priority, ...)
  redis.call('HSET', base .. job_id, 'name', ARGV[at], 'data', ARGV[at + 1], 'opts', ARGV[at + 2],
    'timestamp', timestamp, 'delay', delay, 'priority', priority, ...)
  redis.call('XADD', events, '*', 'event', 'added', 'jobId', job_id, 'name', ARGV[at])
end

local function add_special(number, at)
  local wants = cjson.decode(ARGV[at + 3])
  local job_id, parent_key = wants.id or number, wants.parent_key
  if parent_key and redis.call('EXISTS', parent_key) == 0 then return -5 end
  if wants.id and redis.call('EXISTS', base .. job_id) == 1 then
    if parent_key then
      local code = link_parent(queue, job_id, parent_key, wants.parent, now)
      if code ~= 0 then return code end
    end
    redis.call('XADD', events, '*', 'event', 'duplicated', 'jobId', job_id)
    return job_id
  end
  local extra = {}
  if parent_key then extra = { 'parentKey', parent_key, 'parent', wants.parent } end
  local timestamp, delay, priority = wants.timestamp or now, wants.delay or 0, wants.priority or 0
  store(job_id, at, timestamp, delay, priority, unpack(extra))
  enqueue_job(queue, job_id, timestamp, delay, priority, wants.lifo)
  if parent_key then redis.call('SADD', parent_key .. ':dependencies', base .. job_id) end
  return job_id
end

for nth = 1, many do
  local at, number = jobs + (nth - 1) * 4, string.format('%.0f', first_number + nth)
  if ARGV[at + 3] == '' then
    store(number, at, now, 0, 0)
    redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', number)
    ready[#ready + 1] = number
    ids[nth] = number
  else
    ids[nth] = add_special(number, at)
  end
end
for first = 1, #ready, 1000 do
  redis.call('LPUSH', list, unpack(ready, first, math.min(first + 999, #ready)))
end
redis.call('XTRIM', events, 'MAXLEN', '~', cap)
if #ready > 0 and not is_held_back(queue) then redis.call('ZADD', marker, 0, '0') end
return ids
