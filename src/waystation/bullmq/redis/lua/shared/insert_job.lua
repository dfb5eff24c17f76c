--- Add a job that wants more than its turn; its id, a number below zero that says why not, or
--- nothing when something else lies under the number it would get. With the id of a job that was
--- there before come the fields of that job.
--- uses  link_parent deduplicate store_job enqueue_job stored_fields
local function insert_job(queue, number, name, data, opts, wants, now, is_flow)
  local id, parent_key = wants.id or number, wants.parent_key
  local job = queue.base .. id
  if parent_key and redis.call('EXISTS', parent_key) == 0 then return -5 end
  if wants.id and redis.call('EXISTS', job) == 1 then
    if parent_key then
      local code = link_parent(queue, id, parent_key, wants.parent, now, is_flow)
      if code ~= 0 then return code end
    end
    redis.call('XADD', queue.events, '*', 'event', 'duplicated', 'jobId', id)
    return id, stored_fields(job)
  end
  local more = {}
  if wants.deduplication then
    if not wants.id and redis.call('EXISTS', job) == 1 then return nil end
    local owner = deduplicate(queue, id, name, data, opts, wants, now)
    if owner then return owner, stored_fields(queue.base .. owner) end
    more = { 'deid', wants.deduplication.id }
  end
  if parent_key then
    more[#more + 1] = 'parentKey'
    more[#more + 1] = parent_key
    more[#more + 1] = 'parent'
    more[#more + 1] = wants.parent
  end
  local timestamp, delay, priority = wants.timestamp or now, wants.delay or 0, wants.priority or 0
  if not store_job(queue, id, name, data, opts, timestamp, delay, priority, unpack(more)) then
    return nil
  end
  if wants.has_children then
    redis.call('ZADD', queue['waiting-children'], timestamp, id)
    redis.call('XADD', queue.events, '*', 'event', 'waiting-children', 'jobId', id)
  else
    enqueue_job(queue, id, timestamp, delay, priority, wants.lifo)
  end
  if parent_key then redis.call('SADD', parent_key .. ':dependencies', job) end
  return id
end
