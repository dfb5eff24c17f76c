--- Put some of the pre-queue in line, the last of them first.
--- keys  prequeue early_elevated early_vip early_premium positions elevated vip premium
--- keys  normal_list elevated_list vip_list premium_list heartbeat drawn
--- args  now people...
--- uses  instant_us format_int lane_of
local early, upper = { early_elevated, early_vip, early_premium }, { elevated, vip, premium }
local lists = { [0] = normal_list, elevated_list, vip_list, premium_list }
local seconds = format_int(instant_us(now) / 1000000)
local placed = 0
for at = people, #ARGV, 2 do
  local id, score = ARGV[at], ARGV[at + 1]
  if redis.call('ZSCORE', prequeue, id) then
    local lane = lane_of(early, id)
    redis.call('ZREM', prequeue, id)
    redis.call('ZADD', positions, score, id)
    if lane > 0 then
      redis.call('ZREM', early[lane], id)
      redis.call('ZADD', upper[lane], score, id)
    end
    redis.call('LPUSH', lists[lane], id)
    redis.call('ZADD', heartbeat, seconds, id)
    redis.call('LPUSH', drawn, id)
    placed = placed + 1
  end
end
redis.call('EXPIRE', drawn, 86400)
return placed
