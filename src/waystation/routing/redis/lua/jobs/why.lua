--- Where one job stands, and what it needs to go on.
--- The reply has its status, data and result, why it is dead, whether it runs, its holder and since
--- when, its lock and how long that lasts, when it is due, when its schedule fires, its place in
--- line, its lane and signature, what keeps it there, and what it waits for (id and status of each,
--- in turn).
--- keys  waiting places heads signatures serial routes claims wake events deadletter meta active
--- keys  delayed cron held
--- keys  awaited ended stalls unmoved
--- args  namespace now:str|int profiles:bytes id -> list[Any]
--- uses  keys_at instant_ms index_foreign obstacles claim_of whole check_keys held_of
local line = keys_at(namespace)
now = instant_ms(now)
check_keys(line)
index_foreign(line, now)
local data = redis.call('GET', line.data .. id)

local awaited = {}
local waits_for, _, number = held_of(line, id)
if waits_for then
  local member = (number ~= '' and number .. ' ' or '') .. id
  local read, job = pcall(cjson.decode, data or '')
  local names = read and type(job) == 'table' and job.dependsOn
  for _, other in ipairs(type(names) == 'table' and names or {}) do
    if redis.call('SISMEMBER', line.dependents .. other, member) == 1 then
      awaited[#awaited + 1] = other
      awaited[#awaited + 1] = redis.call('GET', line.status .. other) or ''
    end
  end
end

local place, keeps = redis.call('ZRANK', places, id), {}
local route = redis.call('HGET', routes, id)
if place and route then
  keeps = obstacles(line, now, string.sub(route, 2), cjson.decode(profiles))
end
local record = redis.call('HGET', claims, id)
local claim = record and claim_of(record)
return {
  redis.call('GET', line.status .. id), data, redis.call('GET', line.result .. id),
  redis.call('HGET', meta, id), redis.call('SISMEMBER', active, id),
  claim and claim.worker, claim and whole(claim.since),
  redis.call('GET', line.lock .. id), redis.call('PTTL', line.lock .. id),
  redis.call('ZSCORE', delayed, id), redis.call('ZSCORE', cron, id), place, route, keeps,
  awaited,
}
