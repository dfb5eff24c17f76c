--- What a job asks of its worker, as one text: type, mode, server, then sorted lists.
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
  return '[' .. table.concat({
    cjson.encode(tostring(job.type)), target.mode == 'all' and '"all"' or '"any"',
    cjson.encode(server), list(target.stack), list(target.capabilities), list(target.region),
    list(target.avoid),
  }, ',') .. ']'
end
