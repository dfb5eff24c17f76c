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
