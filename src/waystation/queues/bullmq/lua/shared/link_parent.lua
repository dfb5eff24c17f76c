--- Make an existing job the child of a parent as well; 0, or -7 when it has another that lives.
--- uses  child_completed
local function link_parent(queue, id, parent_key, parent, now)
  local job = queue.base .. id
  local has = redis.call('HGET', job, 'parentKey')
  if has and has ~= parent_key and redis.call('EXISTS', has) == 1 then return -7 end
  redis.call('SADD', parent_key .. ':dependencies', job)
  redis.call('HSET', job, 'parentKey', parent_key, 'parent', parent)
  if redis.call('ZSCORE', queue.completed, id) then
    local result = redis.call('HGET', job, 'returnvalue')
    child_completed(parent_key, cjson.decode(parent), job, result or 'null', now)
  end
  return 0
end
