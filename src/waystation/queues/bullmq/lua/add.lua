--- Put jobs into the line; each is a name, data, options, and what else it wants as JSON or ''.
--- Wants: id timestamp delay priority lifo parent_key parent deduplication.
--- The reply has an id for each job, or a number below zero that says why it was refused.
--- keys  id meta wait active prioritized delayed marker events pc paused completed failed
--- args  base now jobs...
--- uses  now_ms waiting_list is_held_back store_job events_cap
--- rarely  insert_job
local queue = {
  base = base, meta = meta, wait = wait, active = active, prioritized = prioritized,
  delayed = delayed, marker = marker, events = events, pc = pc, paused = paused,
  completed = completed, failed = failed,
}
now = now_ms(now)
local many = (#ARGV - jobs + 1) / 4
local first_number = redis.call('INCRBY', id, many) - many
local cap = events_cap(meta)
local list = waiting_list(queue)
local ready, ids = {}, {}

local function push_ready()
  if #ready == 0 then return end
  for first = 1, #ready, 1000 do
    redis.call('LPUSH', list, unpack(ready, first, math.min(first + 999, #ready)))
  end
  if not is_held_back(queue) then redis.call('ZADD', marker, 0, '0') end
  ready = {}
end

for nth = 1, many do
  local at, number = jobs + (nth - 1) * 4, string.format('%.0f', first_number + nth)
  if ARGV[at + 3] == '' then
    store_job(queue, number, ARGV[at], ARGV[at + 1], ARGV[at + 2], now, 0, 0)
    redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', number)
    ready[#ready + 1] = number
    ids[nth] = number
  else
    -- What came before stays before.
    push_ready()
    local wants = cjson.decode(ARGV[at + 3])
    ids[nth] = rarely().insert_job(queue, number, ARGV[at], ARGV[at + 1], ARGV[at + 2], wants, now,
      false)
  end
end
push_ready()
redis.call('XTRIM', events, 'MAXLEN', '~', cap)
return ids
