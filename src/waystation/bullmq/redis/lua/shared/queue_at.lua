--- The keys of a queue by what they start with, each built when first asked for.
local function queue_at(base)
  return setmetatable({ base = base }, {
    __index = function(queue, name)
      local key = base .. name
      queue[name] = key
      return key
    end,
  })
end
