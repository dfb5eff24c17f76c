--- What waits, by signature, beside what the workers given offer; for each signature its turn's
--- first id, how many wait, how many workers fit, and what the nearest one lacks.
--- keys  heads
--- args  namespace profiles first count
--- uses  line_at lacking
local line = line_at(namespace)
local workers = cjson.decode(profiles)
local rows = {}
for _, signature in ipairs(redis.call('ZRANGE', heads, first, first + count - 1)) do
  local wanted, fit, nearest, distance = cjson.decode(signature), 0, nil, math.huge
  for _, worker in ipairs(workers) do
    local lacks, count = lacking(wanted, worker), 0
    for _, category in ipairs(lacks) do count = count + #category[2] end
    if count == 0 then
      fit = fit + 1
    elseif count < distance then
      nearest, distance = lacks, count
    end
  end
  rows[#rows + 1] = {
    signature, redis.call('ZRANGE', line.ids .. signature, 0, 0)[1] or '',
    redis.call('ZCARD', line.ids .. signature), fit,
    fit == 0 and nearest and cjson.encode(nearest) or '[]',
  }
end
return rows
