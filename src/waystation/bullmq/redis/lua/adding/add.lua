--- Add jobs; each is a name, data, options, and the options for this script as JSON or ''.
--- Wants: id timestamp delay priority lifo parent_key parent deduplication.
--- The reply has an id for each job, or a number below zero that says why it was refused, or the id
--- and the fields of the job that was there before.
--- keys  id meta wait active prioritized delayed marker events pc paused completed failed
--- keys  absent
--- args  base now:str|int jobs:str|bytes... -> ids_or_codes
--- as    queue base
--- unchecked  all
--- uses  instant_ms store_job limit_of
--- lazy  check_wants insert_job waiting_list group_room group_of push_all_grouped
now = instant_ms(now)
local many = (#ARGV - jobs + 1) / 4

-- Everything that a key of another type would make fail is asked before the first write, so that a
-- script that fails has added nothing.
local rules = redis.call('HMGET', meta, 'opts.maxLenEvents', 'paused', 'concurrency')
-- Another client may have written anything there, and jobs must go on.
local most, cap = rules[3] and limit_of(rules[3]), rules[1]
if not cap or #cap > 9 or not string.match(cap, '^%d+$') then cap = 10000 end
queue.is_held = (rules[2] or (most and redis.call('LLEN', active) >= most)) and true or false
redis.call('XLEN', events)
queue.is_marked = redis.call('ZSCORE', marker, '0') ~= false
local wants, seen, takes_turn = {}, {}, false
for nth = 1, many do
  local text = ARGV[jobs + nth * 4 - 1]
  if text == '' then
    takes_turn = true
  else
    local want = cjson.decode(text)
    wants[nth] = want
    if want.delay then
      redis.call('ZCARD', delayed)
    elseif want.priority then
      redis.call('ZCARD', prioritized)
      redis.call('STRLEN', pc)
    else
      takes_turn = true
    end
    if want.deduplication or want.parent_key then lazy().check_wants(queue, want, seen) end
  end
end
local list = rules[2] and lazy().waiting_list(queue) or wait
if takes_turn then redis.call('LLEN', list) end

local first_number = redis.call('INCRBY', id, many) - many
if not rules[1] then redis.call('HSET', meta, 'opts.maxLenEvents', cap) end
local ready, grouped, ids, used, is_past = {}, {}, {}, 0, false
-- As text, because the server writes out a number more slowly than it copies a text.
local stamp = string.format('%.0f', now)

local function push_ready()
  if #ready == 0 then return end
  for first = 1, #ready, 1000 do
    redis.call('LPUSH', list, unpack(ready, first, math.min(first + 999, #ready)))
  end
  if not queue.is_held and not queue.is_marked then redis.call('ZADD', marker, 0, '0') end
  ready = {}
end

local function push_groups()
  if #grouped == 0 then return end
  lazy().push_all_grouped(queue, grouped)
  grouped = {}
end

-- Nearly all jobs of groups just wait, and then go to them a thousand at a time.
local function waits_in(want)
  if not want.group or want.id or want.delay or want.parent_key or want.deduplication then return nil end
  local group = lazy().group_of(want.group)
  return not lazy().group_room(queue, group, want.group.maxSize) and group or nil
end

for nth = 1, many do
  local at, number = jobs + (nth - 1) * 4, string.format('%.0f', first_number + used + 1)
  repeat
    local want = wants[nth]
    local group = want and waits_in(want)
    if not want then
      ids[nth] = store_job(queue, number, ARGV[at], ARGV[at + 1], ARGV[at + 2], false, stamp, '0', '0')
    elseif group then
      local priority = want.priority or 0
      ids[nth] = store_job(queue, number, ARGV[at], ARGV[at + 1], ARGV[at + 2], group,
        want.timestamp or stamp, '0', priority)
      if ids[nth] then
        redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', number)
        grouped[#grouped + 1] = { number, group.path, priority, want.lifo }
      end
      if #grouped == 1000 then push_groups() end
    else
      -- What came before stays before.
      push_ready()
      push_groups()
      local added, before = lazy().insert_job(queue, number, ARGV[at], ARGV[at + 1], ARGV[at + 2],
        wants[nth], now, false)
      ids[nth] = before and { added, before } or added
    end
    -- Something else lies under that number: the next one is as good.
    if not ids[nth] then
      number, is_past = string.format('%.0f', redis.call('INCR', id)), true
    end
  until ids[nth]
  -- Without its parent a job gets no number, as with Node, nor without room in its group.
  if ids[nth] ~= -5 and ids[nth] ~= -11 then used = used + 1 end
  if not wants[nth] then
    redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', number)
    ready[#ready + 1] = number
  end
end
push_ready()
push_groups()
if used < many and not is_past and redis.call('DECRBY', id, many - used) == 0 then
  redis.call('DEL', id)
end
redis.call('XTRIM', events, 'MAXLEN', '~', cap)
return ids
