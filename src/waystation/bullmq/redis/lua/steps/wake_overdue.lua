--- Make jobs ready to run that wait for a child and have passed their deadlines: how many were
--- looked at.
--- keys  deadlines wait paused active prioritized delayed waiting_children marker meta events pc absent
--- args  base now:str|int= most:int -> int
--- as    queue base
--- unchecked  all
--- uses  instant_ms field_of check_queue release_parent
queue['waiting-children'] = waiting_children
now = instant_ms(now)
local due = redis.call('ZRANGEBYSCORE', deadlines, '-inf', string.format('%.0f', now), 'LIMIT', 0, most)
if #due == 0 then return 0 end
-- Only now, because nearly always there is nothing to do.
check_queue(base)
redis.call('ZREM', deadlines, unpack(due))
for _, id in ipairs(due) do
  -- One that has not begun is a later job of the same id, whose children come first.
  -- And what is no job concerns no other.
  if field_of(base .. id, 'ats') then release_parent(queue, id, now) end
end
return #due
