--- Give a job another priority, and its new place if it waits: 0, or -1 when it is gone.
--- keys  wait active prioritized marker meta pc paused absent
--- args  base id priority:int lifo:int -> int
--- as    queue base
--- uses  push_prioritized mark_ready waiting_list leave_group
--- lazy  push_grouped
local job = base .. id
if redis.call('HLEN', job) == 0 then return -1 end
priority = tonumber(priority)

local function take_out()
  if redis.call('ZREM', prioritized, id) == 1 then return waiting_list(queue) end
  if redis.call('LREM', wait, -1, id) == 1 then return wait end
  if redis.call('LREM', paused, -1, id) == 1 then return paused end
  return nil
end

local list = take_out()
if list and priority == 0 then
  redis.call(lifo == '1' and 'RPUSH' or 'LPUSH', list, id)
  mark_ready(queue)
elseif list and lifo == '1' then
  redis.call('ZADD', prioritized, priority * 4294967296, id)
elseif list then
  push_prioritized(queue, id, priority)
  mark_ready(queue)
end
local path = redis.call('HGET', job, 'gid')
if path and leave_group(queue, id) then
  lazy().push_grouped(queue, id, path, priority, lifo == '1')
end
redis.call('HSET', job, 'priority', priority)
return 0
