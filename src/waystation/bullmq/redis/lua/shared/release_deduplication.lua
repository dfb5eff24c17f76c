--- Let others like a finished job in again, beginning with the last one that was kept for later.
--- A key with a TTL runs out by itself.
--- uses  own_deduplication store_job enqueue_job
local function release_deduplication(queue, deduplication, id, now)
  local key, next_key = queue.base .. 'de:' .. deduplication, queue.base .. 'dn:' .. deduplication
  local owner = redis.call('GET', key)
  if owner == id and redis.call('PTTL', key) == -1 then redis.call('DEL', key) end
  local kept = redis.call('HMGET', next_key,
    'name', 'data', 'opts', 'jid', 'pk', 'pd', 'pdk', 'rjk')
  if not kept[1] then return end
  -- A job that stands in its place meanwhile makes the kept one when it has finished itself.
  if owner and owner ~= id and redis.call('EXISTS', queue.base .. owner) == 1 then return end

  local number = string.format('%.0f', redis.call('INCR', queue.base .. 'id'))
  local next_id = kept[4] or number
  if redis.call('EXISTS', queue.base .. next_id) == 1 then next_id = number end
  local is_read, opts = pcall(cjson.decode, kept[3] or '')
  if not is_read or type(opts) ~= 'table' then opts = {} end
  local rule = type(opts.de) == 'table' and opts.de or { keepLastIfActive = true }
  local delay, priority = tonumber(opts.delay) or 0, tonumber(opts.priority) or 0
  local more = { 'deid', deduplication }
  for name, value in pairs({ parentKey = kept[5], parent = kept[6], rjk = kept[8] }) do
    if value then
      more[#more + 1] = name
      more[#more + 1] = value
    end
  end
  own_deduplication(key, next_id, rule)
  store_job(queue, next_id, kept[1], kept[2] or '{}', kept[3] or '{}', now, delay, priority,
    unpack(more))
  enqueue_job(queue, next_id, now, delay, priority, opts.lifo == true)
  if kept[7] then redis.call('SADD', kept[7], queue.base .. next_id) end
  redis.call('DEL', next_key)
end
