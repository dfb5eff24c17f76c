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
