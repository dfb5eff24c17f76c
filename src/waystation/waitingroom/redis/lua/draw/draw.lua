--- Put some of the pre-queue in line; how many stand there now, or -1 once it is over.
--- keys  meta state lottery prequeue early_elevated early_vip early_premium positions elevated vip premium
--- keys  normal_list elevated_list vip_list premium_list heartbeat drawn
--- args  opened placed:int now:str|int people:str|int... -> int
--- uses  instant_us format_int lane_of
-- The pre-queue itself stays whole until the draw ends, so that every process that draws finds the
-- same people, and each part of the order is written once, by whoever comes first.
if redis.call('HGET', meta, 'phase') ~= 'drawing' or redis.call('HGET', lottery, 'opened_us') ~= opened then
  return -1
end
local done = redis.call('HGET', state, 'placed') or '0'
if done ~= placed then return done end
local early, upper = { early_elevated, early_vip, early_premium }, { elevated, vip, premium }
local lists = { [0] = normal_list, elevated_list, vip_list, premium_list }
local seconds = format_int(instant_us(now) / 1000000)
for at = people, #ARGV, 2 do
  local id, score = ARGV[at], ARGV[at + 1]
  local lane = lane_of(early, id)
  redis.call('ZADD', positions, score, id)
  if lane > 0 then redis.call('ZADD', upper[lane], score, id) end
  redis.call('LPUSH', lists[lane], id)
  redis.call('ZADD', heartbeat, seconds, id)
  redis.call('LPUSH', drawn, id)
end
redis.call('EXPIRE', drawn, 86400)
return redis.call('HINCRBY', state, 'placed', (#ARGV - people + 1) / 2)
