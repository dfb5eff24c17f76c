--- The ids of one state from place `first` to `last`, the newest or (`asc`) the oldest first.
--- keys  completed failed delayed prioritized active wait paused waiting_children grouped
--- args  state first:int last:int asc:int -> texts
first, last = tonumber(first), tonumber(last)

local function from_list(key)
  if asc ~= '1' then return redis.call('LRANGE', key, first, last) end
  -- Not -(last + 1): that may be -0, which is no number to Redis 7.
  local found, ids = redis.call('LRANGE', key, -1 - last, -1 - first), {}
  for place = #found, 1, -1 do ids[#ids + 1] = found[place] end
  return ids
end

if state == 'active' then return from_list(active) end
if state == 'paused' then return from_list(paused) end
if state == 'waiting' then
  -- Jobs that were set aside in `paused` are older than those that came since; those of groups come
  -- behind both, because nobody can say which of them will be first.
  local ids, lists = {}, asc == '1' and { paused, wait } or { wait, paused }
  for _, list in ipairs(lists) do
    for _, id in ipairs(from_list(list)) do ids[#ids + 1] = id end
    local size = redis.call('LLEN', list)
    if last >= 0 and last < size then return ids end
    first, last = math.max(first - size, 0), last < 0 and last or last - size
  end
  local rest
  if asc == '1' then
    rest = redis.call('ZRANGE', grouped, first, last)
  else
    rest = redis.call('ZREVRANGE', grouped, first, last)
  end
  for _, id in ipairs(rest) do ids[#ids + 1] = id end
  return ids
end
local sets = {
  completed = completed, failed = failed, delayed = delayed, prioritized = prioritized,
  ['waiting-children'] = waiting_children,
}
if asc == '1' then return redis.call('ZRANGE', sets[state], first, last) end
return redis.call('ZREVRANGE', sets[state], first, last)
