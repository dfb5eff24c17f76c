--- What waits, by signature, beside what the workers given offer; for each signature its turn's
--- first id, how many wait, how many workers fit, and what the nearest one lacks.
--- keys  heads
--- args  namespace profiles first count
--- uses  line_at lacking
local line = line_at(namespace)
local workers = cjson.decode(profiles)
local rows = {}
for _, signature in ipairs(redis.call('ZRANGE', heads, first, first + count - 1)) do
  local wanted, fit, nearest = cjson.decode(signature), 0, nil
  for _, worker in ipairs(workers) do
    local lacks = lacking(wanted, worker)
    if #lacks == 0 then
      fit = fit + 1
    elseif not nearest or #lacks < #nearest then
      nearest = lacks
    end
  end
  rows[#rows + 1] = {
    signature, redis.call('ZRANGE', line.ids .. signature, 0, 0)[1] or '',
    redis.call('ZCARD', line.ids .. signature), fit,
    fit == 0 and nearest and cjson.encode(nearest) or '[]',
  }
end
return rows
