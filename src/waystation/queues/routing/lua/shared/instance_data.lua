--- A schedule's data with the id of one instance in it; the rest stays as it was written.
local function instance_data(data, id, instance)
  -- JSON is never written anew here: large numbers would lose digits and empty lists their kind.
  local quoted, from = cjson.encode(id), 1
  while true do
    local first, last = string.find(data, quoted, from, true)
    if not first then return nil end
    local changed = string.sub(data, 1, first - 1) .. cjson.encode(instance)
      .. string.sub(data, last + 1)
    if cjson.decode(changed).jobId == instance then return changed end
    from = last + 1
  end
end
