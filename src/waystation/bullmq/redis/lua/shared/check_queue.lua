--- Stop the script, before it has written, when a key of a queue is of another type.
--- `seen` has the queues that were looked at before.
--- uses  must_hold
local function check_queue(base, seen)
  if seen and seen[base] then return end
  local sizes = {
    LLEN = { 'wait', 'paused', 'active' }, HLEN = { 'meta' }, XLEN = { 'events' },
    ZCARD = { 'prioritized', 'delayed', 'waiting-children', 'completed', 'failed', 'marker' },
    STRLEN = { 'pc', 'id' },
  }
  for size, names in pairs(sizes) do
    for _, name in ipairs(names) do must_hold(size, base .. name) end
  end
  if seen then seen[base] = true end
end
