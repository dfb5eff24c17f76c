--- Make a lane's list anew when most of it are ghosts; how many it lost.
--- keys  positions elevated vip premium normal_list elevated_list vip_list premium_list
--- args  lane:int most:int -> int
--- uses  lane_lengths first_of_lane
local upper = { elevated, vip, premium }
local number = tonumber(lane)
local list = ({ [0] = normal_list, elevated_list, vip_list, premium_list })[number]
local listed, live = redis.call('LLEN', list), lane_lengths(positions, upper)[number]
if listed < 2 * live + 1000 or live > tonumber(most) then return 0 end
local people = live > 0 and first_of_lane(positions, upper, number, live) or {}
if #people < live then return 0 end
redis.call('DEL', list)
for from = 1, #people, 1000 do
  redis.call('RPUSH', list, unpack(people, from, math.min(from + 999, #people)))
end
return listed - live
