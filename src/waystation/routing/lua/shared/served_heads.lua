--- The signatures that have waiting jobs and that a worker can serve, in turn: a function that gives
--- the next one and its turn, and nothing after the last.
local function served_heads(line, serves)
  local page, at, after = {}, 1, '-inf'
  local few = math.min(redis.call('ZCARD', line.heads), redis.call('ZCARD', serves)) <= 200
  if few then
    page = redis.call('ZINTER', 2, line.heads, serves, 'WEIGHTS', 1, 0, 'WITHSCORES')
  end

  -- Where both are many, only as many are looked at as are asked for.
  local function turn_page()
    local found = redis.call('ZRANGEBYSCORE', line.heads, after, '+inf', 'WITHSCORES',
      'LIMIT', 0, 200)
    if #found == 0 then return false end
    local names = {}
    for place = 1, #found, 2 do names[#names + 1] = found[place] end
    local fits = redis.call('ZMSCORE', serves, unpack(names))
    page, at, after = {}, 1, '(' .. found[#found]
    for place, name in ipairs(names) do
      if fits[place] then
        page[#page + 1] = name
        page[#page + 1] = found[2 * place]
      end
    end
    return true
  end

  return function()
    while not page[at] do
      if few or not turn_page() then return nil end
    end
    at = at + 2
    return page[at - 2], tonumber(page[at - 1])
  end
end
