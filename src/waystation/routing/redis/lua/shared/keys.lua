--- The keys of a queue by its prefix. Each is put together when it is first asked for: a script
--- asks for a few of them.
local function keys_at(namespace)
  local places = {
    jobs = ':jobs:', data = ':jobs:data:', status = ':jobs:status:', result = ':jobs:result:',
    lock = ':jobs:lock:', progress = ':jobs:progress:', waiting = ':jobs:waiting',
    active = ':jobs:active', delayed = ':jobs:delayed', cron = ':jobs:cron',
    deadletter = ':jobs:deadletter', meta = ':jobs:deadletter:meta', claims = ':jobs:claims',
    leases = ':jobs:leases', routes = ':jobs:routes', stalls = ':jobs:stalls',
    awaited = ':jobs:awaited', held = ':jobs:held', dependents = ':jobs:dependents:',
    ended = ':jobs:ended', stopping = ':jobs:stopping', stopped = ':jobs:stopped',
    wake = ':jobs:wake', fired = ':jobs:cron:fired', places = ':index:places',
    heads = ':index:heads', signatures = ':index:signatures', serial = ':index:serial',
    ids = ':index:ids:', serves = ':index:serves:', limits = ':ratelimit:config',
    concurrent = ':ratelimit:concurrent:', minute = ':ratelimit:minute:',
    paused = ':queues:paused', workers = ':workers:', registered = ':workers:active',
    heartbeat = ':workers:heartbeat:', events = ':events:stream', cap = ':events:cap',
    history = ':events:history',
  }
  return setmetatable({ namespace = namespace }, {
    __index = function(line, name)
      local place = places[name]
      if not place then return nil end
      line[name] = namespace .. place
      return line[name]
    end,
  })
end

--- Stop before anything is written when a key of the namespace is of another type.
--- uses  must_hold check_serial
local function check_keys(line)
  local sizes = {
    LLEN = { 'waiting', 'deadletter', 'ended' },
    SCARD = { 'active', 'awaited', 'registered', 'paused' },
    ZCARD = { 'delayed', 'cron', 'leases', 'places', 'heads', 'signatures' },
    HLEN = { 'claims', 'routes', 'stalls', 'held', 'fired', 'meta', 'limits',
      'stopping' },
    XLEN = { 'wake', 'events', 'stopped' },
  }
  for size, names in pairs(sizes) do
    for _, name in ipairs(names) do must_hold(size, line[name]) end
  end
  check_serial(line)
end

--- Stop before anything is written when the last turn that was given is no number.
local function check_serial(line)
  local last = redis.call('GET', line.serial)
  if last and not string.find(last, '^%d+$') then
    error('wanted a number under ' .. line.serial .. ', got ' .. last)
  end
end
