--- Put turns that nobody took back into the bucket, so that as many come in as should.
local function give_back(tokens, turns)
  if turns == 0 then return end
  local kept = redis.call('GET', tokens)
  if kept then redis.call('SET', tokens, string.format('%.6f', tonumber(kept) + turns)) end
end
