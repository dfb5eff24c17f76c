--- A schedule's data with the id of one instance in it; the rest stays as it was written.
local function instance_data(data, id, instance)
  -- JSON is never written anew here: large numbers would lose digits and empty lists their kind.
  local written = cjson.encode(instance)
  for _, quoted in ipairs({ cjson.encode(id), '"' .. id .. '"' }) do
    local from = 1
    while true do
      local first, last = string.find(data, quoted, from, true)
      if not first then break end
      local changed = string.sub(data, 1, first - 1) .. written .. string.sub(data, last + 1)
      local read, job = pcall(cjson.decode, changed)
      if read and job.jobId == instance then return changed end
      from = last + 1
    end
  end
  -- Written in a way we do not know; of two members with one name every reader takes the last.
  local body = string.match(data, '^%s*({.*)}%s*$')
  local more = body and string.find(body, '^{%s*$') == nil and ',' or ''
  return body and body .. more .. '"jobId":' .. written .. '}'
end
