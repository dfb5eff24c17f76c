--- Leave a job that its worker holds to wait for one of its children, or for all.
--- 0 when it waits now, 1 when there is nothing to wait for, below zero why not.
--- A job with a deadline comes back then at the latest.
--- keys  active waiting_children stalled meta events deadlines marker absent
--- args  base id token child= deadline_ms:str|int= now:str|int= -> int
--- uses  instant_ms take_back events_cap
local job = base .. id
local held = redis.call('GET', job .. ':lock')
if held == token then
  if redis.call('EXISTS', job .. ':unsuccessful') == 1 then return -9 end
  local dependencies = job .. ':dependencies'
  local is_open = child == '' and redis.call('EXISTS', dependencies)
    or redis.call('SISMEMBER', dependencies, child)
  if is_open == 0 then return 1 end
end
local code = take_back({ base = base, active = active, stalled = stalled }, id, token)
if code ~= 0 then return code end
redis.call('ZADD', waiting_children, instant_ms(now), id)
-- A handler that waits for one child comes back to where it was, so it may have something to undo.
if child ~= '' then redis.call('HSETNX', job, 'steps', 0) end
if deadline_ms ~= '' then redis.call('ZADD', deadlines, deadline_ms, id) end
redis.call('XADD', events, 'MAXLEN', '~', events_cap(meta), '*', 'event', 'waiting-children',
  'jobId', id, 'prev', 'active')
return 0
