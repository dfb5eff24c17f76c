--- Stop before anything is written when a key of the namespace is of another type.
--- uses  must_hold check_serial
local function check_line(line)
  local sizes = {
    LLEN = { 'waiting', 'deadletter' },
    SCARD = { 'active', 'awaited', 'registered', 'paused' },
    ZCARD = { 'delayed', 'cron', 'leases', 'places', 'heads', 'signatures' },
    HLEN = { 'claims', 'routes', 'stalls', 'held', 'fired', 'meta', 'limits' },
    XLEN = { 'wake', 'events' },
  }
  for size, names in pairs(sizes) do
    for _, name in ipairs(names) do must_hold(size, line[name]) end
  end
  check_serial(line)
end
