--- How groups stand, by their paths: how many of their jobs wait and are active, for how long each is
--- held, -1 for ever and '' when it is not, what it has spent in the
--- window of its rate limit and today, and what is set for all and for it.
--- keys  meta active absent
--- args  base now:str|int= paths... -> groups
--- uses  instant_ms group_name spent_at holder_of
now = instant_ms(now)
local queue = { base = base }
local found, holding = {}, {}
for _, id in ipairs(redis.call('LRANGE', active, 0, -1)) do
  local path = redis.call('HGET', base .. id, 'gid') or ''
  while path ~= '' do
    holding[path] = (holding[path] or 0) + 1
    path = holder_of(path)
  end
end
for nth = paths, #ARGV do
  local path = ARGV[nth]
  local until_ms = redis.call('ZSCORE', group_name(queue, 'held'), path)
  local held_ms = until_ms == 'inf' and -1 or until_ms and math.max(math.ceil(until_ms - now), 0) or ''
  local every = string.find(path, '/', 1, true) and '*/*' or '*'
  local settings = redis.call('HMGET', group_name(queue, 'settings'), every, path)
  local size = tonumber(redis.call('ZSCORE', group_name(queue, 'sizes'), path)) or 0
  local spent = spent_at(group_name(queue, 'spent', path))
  local today = spent_at(group_name(queue, 'today', path))
  found[#found + 1] = {
    size, holding[path] or 0, held_ms,
    string.format('%.17g', spent), string.format('%.17g', today), settings[1] or '', settings[2] or '',
  }
end
return found
