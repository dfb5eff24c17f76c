--- Match the signatures that are new to a worker's profile; the key of those it can serve, and
--- whether there are more to look at.
--- uses  lacking whole
local function learn(line, profile)
  local serves = line.serves .. redis.sha1hex(profile)
  -- What has been looked at is the score of the empty name, which no signature has.
  local seen = redis.pcall('ZSCORE', serves, '')
  if type(seen) == 'table' then
    -- Something else lies there; what is learnt can be learnt anew.
    redis.call('DEL', serves)
    seen = false
  end
  local fresh = redis.call('ZRANGEBYSCORE', line.signatures, '(' .. (seen or '-inf'), '+inf',
    'WITHSCORES', 'LIMIT', 0, 10000)
  if #fresh == 0 and seen then return serves, false end
  local worker = cjson.decode(profile)
  local fitting = {}
  for at = 1, #fresh, 2 do
    local read, wanted = pcall(cjson.decode, fresh[at])
    if read and type(wanted) == 'table' and #lacking(wanted, worker) == 0 then
      fitting[#fitting + 1] = 0
      fitting[#fitting + 1] = fresh[at]
    end
  end
  for first = 1, #fitting, 1000 do
    redis.call('ZADD', serves, unpack(fitting, first, math.min(first + 999, #fitting)))
  end
  redis.call('ZADD', serves, fresh[#fresh] or '0', '')
  -- Learnt anew every hour, so that what nobody asks for any more is forgotten.
  if not seen then redis.call('EXPIRE', serves, 3600) end
  return serves, #fresh >= 20000
end
