--- The job type that a signature begins with; types are the queues of this line.
local function queue_of(signature)
  return string.match(signature, '^%["([^"\\]*)"') or cjson.decode(signature)[1]
end

--- What a job asks of its worker, as one text: type, mode, server, then sorted lists, and what else
--- there is.
--- uses  whole
local function signature_of(job)
  local function list(given)
    local texts = {}
    if type(given) == 'table' then
      for _, value in ipairs(given) do texts[#texts + 1] = cjson.encode(tostring(value)) end
    end
    table.sort(texts)
    return '[' .. table.concat(texts, ',') .. ']'
  end
  local target = type(job.target) == 'table' and job.target or {}
  local server = type(target.server) == 'string' and target.server or ''
  local parts = {
    cjson.encode(tostring(job.type)), target.mode == 'all' and '"all"' or '"any"',
    cjson.encode(server), list(target.stack), list(target.capabilities), list(target.region),
    list(target.avoid),
  }

  local more = {}
  if target.match == 'category-any' then more[1] = '"match":"category-any"' end
  local limit = type(job.rateLimit) == 'table' and job.rateLimit or {}
  for _, name in ipairs({ 'maxConcurrent', 'maxPerMinute' }) do
    local most = tonumber(limit[name])
    -- A limit that lets nothing through, or is no limit, is not what anybody means.
    if most and most >= 1 and most < 4503599627370496 then
      more[#more + 1] = '"' .. name .. '":' .. whole(most)
    end
  end
  if #more > 0 then parts[8] = '{' .. table.concat(more, ',') .. '}' end
  return '[' .. table.concat(parts, ',') .. ']'
end

--- The lane and signature of a job, kept since dispatch or read off its data; nil, and why, when
--- it cannot be read.
--- uses  signature_of text_of
local function route_of(line, id)
  local kept = redis.call('HGET', line.routes, id)
  if kept then return kept end
  local data = text_of(line.data .. id)
  if not data then return nil, 'gone' end
  local read, job = pcall(cjson.decode, data)
  if not read or type(job) ~= 'table' or type(job.type) ~= 'string' then return nil, 'malformed' end
  local priority = tonumber(job.priority) or 5
  local route = (priority >= 7 and 'H' or 'N') .. signature_of(job)
  redis.call('HSET', line.routes, id, route)
  return route
end

--- Whether a text fits a pattern in which * stands for anything and ? for one character.
local function glob(pattern, text)
  if pattern == text then return true end
  if not string.find(pattern, '[*?]') then return false end
  local p, t, star, mark = 1, 1, nil, 1
  -- One star is remembered at a time, so the cost is at most the product of the two lengths.
  while t <= #text do
    local c = string.sub(pattern, p, p)
    if c == '*' then
      star, mark, p = p, t, p + 1
    elseif c == '?' or (c ~= '' and c == string.sub(text, t, t)) then
      p, t = p + 1, t + 1
    elseif star then
      p, mark = star + 1, mark + 1
      t = mark
    else
      return false
    end
  end
  return string.find(pattern, '^%**$', p) ~= nil
end

--- What a worker lacks for a signature, as a list of category and values; empty when it fits.
--- uses  glob
local function lacking(signature, worker)
  local queue, mode, server = signature[1], signature[2], signature[3]
  local lacks, given, missed = {}, 0, {}

  local function has(offers, wanted, patterns)
    for _, offer in ipairs(offers) do
      if offer == wanted or (patterns and glob(offer, wanted)) then return true end
    end
    return false
  end

  local function check(category, wanted, offers, patterns)
    if #wanted == 0 then return end
    given = given + 1
    local missing = {}
    for _, value in ipairs(wanted) do
      if has(offers, value, patterns) then
        if mode ~= 'all' then return end
      else
        missing[#missing + 1] = value
      end
    end
    if #missing > 0 then missed[#missed + 1] = { category, missing } end
  end

  if #worker.types > 0 and not has(worker.types, queue) then
    lacks[1] = { 'type', { queue } }
  end
  -- A named server decides alone.
  if server ~= '' then
    if server ~= worker.server then lacks[#lacks + 1] = { 'server', { server } } end
    return lacks
  end
  check('stack', signature[4], worker.stack)
  check('capabilities', signature[5], worker.capabilities, true)
  check('region', signature[6], worker.region)
  local one_will_do = signature[8] and signature[8].match == 'category-any'
  if not one_will_do or #missed == given then
    for _, lack in ipairs(missed) do lacks[#lacks + 1] = lack end
  end
  if has(signature[7], worker.server) then lacks[#lacks + 1] = { 'avoid', { worker.server } } end
  return lacks
end

--- Match the signatures that are new to a worker's profile; the key of those it can serve, and
--- whether there are more to look at.
--- lazy  lacking
local function match_signatures(line, profile)
  local serves = line.serves .. redis.sha1hex(profile)
  -- What has been looked at is the score of the empty name, which no signature has.
  local seen = redis.pcall('ZSCORE', serves, '')
  if type(seen) == 'table' then
    -- Something else lies there; what is learnt can be learnt anew.
    redis.call('DEL', serves)
    seen = false
  end
  -- So many in one call, for all workers that it looks for; whoever is left asks again.
  local after, most = '(' .. (seen or '-inf'), line.may_compare or 200
  if most == 0 then return serves, redis.call('ZCOUNT', line.signatures, after, '+inf') > 0 end
  local fresh = redis.call('ZRANGEBYSCORE', line.signatures, after, '+inf', 'WITHSCORES', 'LIMIT', 0, most)
  if #fresh == 0 and seen then return serves, false end
  line.may_compare = most - #fresh / 2
  local worker = cjson.decode(profile)
  local fitting = {}
  for at = 1, #fresh, 2 do
    local read, wanted = pcall(cjson.decode, fresh[at])
    if read and type(wanted) == 'table' and #lazy().lacking(wanted, worker) == 0 then
      fitting[#fitting + 1] = 0
      fitting[#fitting + 1] = fresh[at]
    end
  end
  for first = 1, #fitting, 1000 do
    redis.call('ZADD', serves, unpack(fitting, first, math.min(first + 999, #fitting)))
  end
  redis.call('ZADD', serves, fresh[#fresh] or '0', '')
  -- Learnt anew every hour, so that what nobody asks for any more is forgotten.
  if not seen then redis.call('EXPIRE', serves, 3600) end
  return serves, #fresh == 2 * most
end
