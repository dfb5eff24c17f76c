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
  store_job(queue, id, job.name, job.data, opts, now, delay, job.priority, unpack(more))
  enqueue_job(queue, id, now, delay, job.priority, job.lifo)
  return id
end
