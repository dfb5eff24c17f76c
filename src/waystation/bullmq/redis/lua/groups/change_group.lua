--- Change what is set for a group, or for all of a kind: names to values as JSON, null to remove.
--- What it held back is let in again, to be held anew when its turn comes.
--- keys  meta active absent
--- args  base now:str|int= path changes:bytes -> int
--- as    queue base
--- uses  instant_ms group_key is_limited make_group_ready mark_groups count_active note_groups
local changed = cjson.decode(changes)
local stored = redis.call('HGET', group_key(queue, 'settings'), path)
local is_read, settings = pcall(cjson.decode, stored or '{}')
if not is_read or type(settings) ~= 'table' then settings = {} end
if is_limited(settings) then
  -- What waited until now was not held up by the turns of others alone, which the history asks. It
  -- does not look further back than an hour.
  local freed = group_key(queue, 'freed')
  redis.call('HSET', freed, path, string.format('%.0f', instant_ms(now)))
  redis.call('PEXPIRE', freed, 3600000)
end
for name, value in pairs(changed) do
  if value == cjson.null then settings[name] = nil else settings[name] = value end
end
if next(settings) then
  redis.call('HSET', group_key(queue, 'settings'), path, cjson.encode(settings))
  -- It holds for a job that another client makes wait, too, whether or not others wait in groups.
  note_groups(queue, path)
else
  redis.call('HDEL', group_key(queue, 'settings'), path)
end
if path == '*' or path == '*/*' then
  -- All that are held are looked at again, some with each claim.
  if redis.call('EXISTS', group_key(queue, 'held')) == 1 then
    redis.call('ZUNIONSTORE', group_key(queue, 'held'), 1, group_key(queue, 'held'), 'WEIGHTS', 0)
  end
elseif redis.call('ZREM', group_key(queue, 'held'), path) == 1 then
  make_group_ready(queue, path)
end
if changed.concurrency ~= nil then
  queue.group_settings = false
  redis.call('DEL', group_key(queue, 'active', path))
  count_active(queue)
end
mark_groups(queue)
return 0
