--- The state a job is in.
--- keys  completed failed delayed prioritized active wait paused waiting_children grouped
--- args  id -> word
local sets = {
  { completed, 'completed' }, { failed, 'failed' }, { delayed, 'delayed' },
  { prioritized, 'prioritized' },
}
for _, set in ipairs(sets) do
  if redis.call('ZSCORE', set[1], id) then return set[2] end
end
if redis.call('LPOS', active, id) then return 'active' end
if redis.call('LPOS', wait, id) or redis.call('LPOS', paused, id) then return 'waiting' end
if redis.call('ZSCORE', grouped, id) then return 'waiting' end
if redis.call('ZSCORE', waiting_children, id) then return 'waiting-children' end
return 'unknown'
