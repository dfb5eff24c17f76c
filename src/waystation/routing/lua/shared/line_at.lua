--- The keys of a line by its namespace.
local function line_at(namespace)
  local jobs, index = namespace .. ':jobs:', namespace .. ':index:'
  return {
    namespace = namespace, jobs = jobs, data = jobs .. 'data:', status = jobs .. 'status:',
    result = jobs .. 'result:', lock = jobs .. 'lock:', progress = jobs .. 'progress:',
    waiting = jobs .. 'waiting', active = jobs .. 'active', delayed = jobs .. 'delayed',
    cron = jobs .. 'cron', deadletter = jobs .. 'deadletter', meta = jobs .. 'deadletter:meta',
    claims = jobs .. 'claims', leases = jobs .. 'leases', routes = jobs .. 'routes',
    stalls = jobs .. 'stalls', awaited = jobs .. 'awaited', held = jobs .. 'held',
    dependents = jobs .. 'dependents:', wake = jobs .. 'wake', fired = jobs .. 'cron:fired',
    places = index .. 'places', heads = index .. 'heads', signatures = index .. 'signatures',
    serial = index .. 'serial', ids = index .. 'ids:', serves = index .. 'serves:',
    limits = namespace .. ':ratelimit:config', concurrent = namespace .. ':ratelimit:concurrent:',
    minute = namespace .. ':ratelimit:minute:', paused = namespace .. ':queues:paused',
    workers = namespace .. ':workers:', registered = namespace .. ':workers:active',
    heartbeat = namespace .. ':workers:heartbeat:', events = namespace .. ':events:stream',
    cap = namespace .. ':events:cap',
  }
end
