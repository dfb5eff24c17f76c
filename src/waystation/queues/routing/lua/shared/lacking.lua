--- What a worker lacks for a signature, as a list of category and values; empty when it fits.
--- uses  glob
local function lacking(signature, worker)
  local queue, mode, server = signature[1], signature[2], signature[3]
  local lacks = {}

  local function has(offers, wanted, patterns)
    for _, offer in ipairs(offers) do
      if offer == wanted or (patterns and glob(offer, wanted)) then return true end
    end
    return false
  end

  local function check(category, wanted, offers, patterns)
    if #wanted == 0 then return end
    local missing = {}
    for _, value in ipairs(wanted) do
      if has(offers, value, patterns) then
        if mode ~= 'all' then return end
      else
        missing[#missing + 1] = value
      end
    end
    if #missing > 0 then lacks[#lacks + 1] = { category, missing } end
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
  if has(signature[7], worker.server) then lacks[#lacks + 1] = { 'avoid', { worker.server } } end
  return lacks
end
