--- Where one job stands, and what its queue allows.
--- The reply has the time, the job's state, how many come before it, its fields, its lock and how
--- long that lasts, when it is due, the rules of the queue (paused, concurrency, max), what its rate
--- limit has counted and how long that lasts, how many jobs are active and wait, and for each group
--- that the job waits in, its own first: the path, how many take a turn before it (-1 when it takes
--- none now), how many take turns with it, whether it has had more than they, and how long what it
--- has spent counts. In a group those come before the job that are of the same group.
--- keys  completed failed delayed prioritized active wait paused waiting_children meta limiter
--- keys  grouped absent
--- args  base now:str|int= id -> standing
--- uses  instant_ms stored_fields group_name holder_of
local state, place, due = 'unknown', -1, false
for _, set in ipairs({
  { completed, 'completed' }, { failed, 'failed' }, { waiting_children, 'waiting-children' },
}) do
  if redis.call('ZSCORE', set[1], id) then state = set[2] end
end
due = redis.call('ZSCORE', delayed, id)
if due then state, due = 'delayed', string.format('%.0f', math.floor(due / 4096)) end
if redis.call('LPOS', active, id) then state = 'active' end
local rank = redis.call('ZRANK', prioritized, id)
if rank then state, place = 'prioritized', redis.call('LLEN', wait) + rank end
for _, list in ipairs({ wait, paused }) do
  -- The next one is at the right end.
  local at = redis.call('LPOS', list, id, 'RANK', -1)
  if at then state, place = 'waiting', redis.call('LLEN', list) - 1 - at end
end
local job, turns = base .. id, {}
if redis.call('ZSCORE', grouped, id) then
  local queue, path = { base = base }, redis.pcall('HGET', job, 'gid')
  local clock = group_name(queue, 'clock')
  state, place = 'waiting', redis.call('ZRANK', group_name(queue, 'jobs', path), id) or -1
  while type(path) == 'string' and path ~= '' do
    local holder = holder_of(path)
    local ready = group_name(queue, 'ready', holder)
    local before, many = redis.call('ZRANK', ready, path) or -1, redis.call('ZCARD', ready)
    local tag = tonumber(redis.call('ZSCORE', ready, path)) or 0
    local time = tonumber(redis.call('HGET', clock, holder)) or 0
    local own = math.max(time, tonumber(redis.call('HGET', clock, holder .. '/')) or 0)
    local has_own = holder == '' and redis.call('EXISTS', wait, prioritized) > 0
      or holder ~= '' and redis.call('EXISTS', group_name(queue, 'jobs', holder)) == 1
    if has_own then
      many = many + 1
      if before >= 0 and own < tag then before = before + 1 end
    end
    turns[#turns + 1] = {
      path, before, many, tag > time and 1 or 0,
      math.max(redis.call('PTTL', group_name(queue, 'spent', path)), 0),
    }
    path = holder
  end
end
return {
  string.format('%.0f', instant_ms(now)), state, place, stored_fields(job),
  redis.call('GET', job .. ':lock'), redis.call('PTTL', job .. ':lock'), due,
  redis.call('HMGET', meta, 'paused', 'concurrency', 'max'),
  redis.call('GET', limiter), redis.call('PTTL', limiter),
  redis.call('LLEN', active),
  redis.call('LLEN', wait) + redis.call('LLEN', paused) + redis.call('ZCARD', prioritized)
    + redis.call('ZCARD', grouped),
  turns,
}
