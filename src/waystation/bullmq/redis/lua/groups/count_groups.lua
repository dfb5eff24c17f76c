--- How many groups have jobs that wait and how many of those are held, how many of their jobs wait
--- and are active, and the same of each of the groups with the most that wait. A parent stands for
--- the groups in it.
--- keys  active grouped absent
--- args  base now:str|int= most:int -> group_counts
--- uses  instant_ms group_name
now = instant_ms(now)
local queue = { base = base }
local holding, holding_all = {}, 0
for _, id in ipairs(redis.call('LRANGE', active, 0, -1)) do
  local path = redis.pcall('HGET', base .. id, 'gid')
  if type(path) == 'string' then
    local top = string.match(path, '^[^/]*')
    holding[top], holding_all = (holding[top] or 0) + 1, holding_all + 1
  end
end
local sizes, found = group_name(queue, 'sizes'), {}
-- The keys of one parent may be larger than many groups, so there is an end to passing them over.
for first = 0, 900, 100 do
  local some = redis.call('ZREVRANGE', sizes, first, first + 99, 'WITHSCORES')
  for at = 1, #some, 2 do
    local path = some[at]
    if #found < tonumber(most) and not string.find(path, '/', 1, true) then
      found[#found + 1] = { path, tonumber(some[at + 1]), holding[path] or 0 }
    end
  end
  if #some < 200 or #found == tonumber(most) then break end
end
return {
  redis.call('ZCARD', sizes), redis.call('ZCOUNT', group_name(queue, 'held'), '(' .. now, '+inf'),
  redis.call('ZCARD', grouped), holding_all, found,
}
