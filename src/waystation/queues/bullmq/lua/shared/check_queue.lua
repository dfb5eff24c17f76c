--- Stop the script, before it has written, when a key of a queue is of another type.
--- uses  must_hold
local function check_queue(base)
  local sizes = {
    LLEN = { 'wait', 'paused', 'active' }, HLEN = { 'meta' }, XLEN = { 'events' },
    ZCARD = { 'prioritized', 'delayed', 'waiting-children', 'completed', 'failed', 'marker' },
    STRLEN = { 'pc', 'id' },
  }
  for size, names in pairs(sizes) do
    for _, name in ipairs(names) do must_hold(size, base .. name) end
  end
end
