--- When a scheduler that counts milliseconds runs next, and how far into its stretch that is.
--- Slots that were missed are left out.
local function next_slot(previous, every, offset, start, now)
  local slot = now
  if previous then
    slot = previous + every
    if slot < now then
      slot = math.floor(now / every) * every + offset
      if slot <= now then slot = slot + every end
    end
  elseif start then
    slot = math.max(start, now)
  elseif offset > 0 then
    slot = math.floor(now / every) * every + offset
    if slot <= now then slot = slot + every end
  end
  if offset == 0 then offset = slot % every end
  return slot, offset
end

--- Make a scheduler's job for one slot; `job` is what its producer knows: name, data, the
--- beginning of its options and of its id as JSON text, priority, lifo and deduplication id.
--- uses  store_job enqueue_job
local function insert_iteration(queue, scheduler, slot, job, now)
  local at, made = string.format('%.0f', slot), string.format('%.0f', now)
  local id, delay = 'repeat:' .. scheduler .. ':' .. at, math.max(slot - now, 0)
  local opts = job.opts .. ',"jobId":' .. job.id .. at .. '","delay":' .. string.format('%.0f', delay)
    .. ',"timestamp":' .. made .. (job.is_cron and ',"prevMillis":' .. at or '') .. '}'
  local more = { 'rjk', scheduler }
  if job.deduplication ~= '' then more = { 'rjk', scheduler, 'deid', job.deduplication } end
  -- Counted as Node does; the id is another.
  redis.pcall('INCR', queue.base .. 'id')
  store_job(queue, id, job.name, job.data, opts, nil, now, delay, job.priority, unpack(more))
  enqueue_job(queue, id, now, delay, job.priority, job.lifo)
  return id
end

--- True when a worker has begun a job, which then goes on whatever becomes of its scheduler.
--- uses  field_of is_midway
local function has_begun(job)
  return field_of(job, 'ats') or is_midway(job)
end

--- True when a job is the current one of its scheduler.
--- uses  field_of
local function is_current_iteration(queue, id)
  local scheduler = field_of(queue.base .. id, 'rjk')
  if not scheduler then return false end
  local slot = redis.call('ZSCORE', queue.base .. 'repeat', scheduler)
  return slot and id == 'repeat:' .. scheduler .. ':' .. slot
end

--- The first slot from this one on that has no job yet; nothing when 32 in a row have one.
local function free_slot(base, scheduler, slot, every)
  for _ = 0, 32 do
    local id = 'repeat:' .. scheduler .. ':' .. string.format('%.0f', slot)
    if redis.call('EXISTS', base .. id) == 0 then return slot end
    slot = slot + every
  end
end
