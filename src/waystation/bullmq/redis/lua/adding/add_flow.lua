--- Add trees of jobs, all or nothing; parents stand before their children.
--- Each job is its queue's base, its name, data, options, and the options for this script as JSON (see `add`).
--- A job with `has_children` waits for them. The reply has an id for each job, with the fields
--- of one that was there before;
--- or, when nothing was added, a number below zero and the place of the job it is about.
--- keys  meta absent
--- args  now jobs...
--- uses  now_ms queue_at events_cap has_other_parent insert_job read_parent release_parent is_held_back
--- uses  must_hold check_queue check_wants
now = now_ms(now)
local queues, numbers, added, parents, is_parent = {}, {}, {}, {}, {}
local wants, seen, many = {}, {}, (#ARGV - jobs + 1) / 5

for nth = 1, many do
  local at = jobs + (nth - 1) * 5
  local base = ARGV[at]
  local want = cjson.decode(ARGV[at + 4])
  local parent_key = want.parent_key
  if parent_key then
    if not added[parent_key] and redis.call('EXISTS', parent_key) == 0 then return { -5, nth } end
    if has_other_parent(base .. want.id, parent_key) then return { -7, nth } end
    if not is_parent[parent_key] then parents[#parents + 1] = want end
    is_parent[parent_key] = true
  end
  wants[nth] = want
  added[base .. want.id] = true
  queues[base] = queues[base] or queue_at(base)
  check_queue(base, seen)
  check_wants(queues[base], want, seen)
  must_hold('HLEN', base .. want.id)
  numbers[base] = (numbers[base] or 0) + 1
end

for base, queue in pairs(queues) do
  queue.is_held = is_held_back(queue) and true or false
  -- Counted as Node does; every job of a flow has an id of its own.
  local counted = redis.pcall('INCRBY', queue.id, numbers[base])
  numbers[base] = type(counted) == 'number' and counted - numbers[base] or 0
end
local ids = {}
for nth = 1, many do
  local at, want = jobs + (nth - 1) * 5, wants[nth]
  local base = ARGV[at]
  local queue = queues[base]
  numbers[base] = numbers[base] + 1
  local id, before = insert_job(queue, string.format('%.0f', numbers[base]), ARGV[at + 1],
    ARGV[at + 2], ARGV[at + 3], want, now, true)
  ids[nth] = before and { id, before } or id
end
-- A parent whose children had all been completed before may run.
for _, want in ipairs(parents) do
  if redis.call('EXISTS', want.parent_key .. ':dependencies') == 0 then
    local parent = read_parent(want.parent_key, want.parent)
    release_parent(queue_at(parent.queueKey .. ':'), parent.id, now)
  end
end
for _, queue in pairs(queues) do
  redis.call('XTRIM', queue.events, 'MAXLEN', '~', events_cap(queue.meta))
end
return ids
