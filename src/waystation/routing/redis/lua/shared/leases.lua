--- The parts of a claim's record: token, whether it is counted, turn, since when, worker, type.
--- uses  number_or
local function claim_of(record)
  -- The worker's length comes before it, because others may call theirs what they like.
  local token, counted, turn, since, size, names =
    string.match(record, '^(%S+) (%d) (%S+) (%S+) (%d+) (.*)$')
  return {
    token = token, counted = counted == '1', turn = number_or(0, turn),
    since = number_or(0, since), worker = string.sub(names or '', 1, size),
    queue = string.sub(names or '', (size or 0) + 2),
  }
end

--- Undo one claim: lock, lease, record, membership, count.
--- uses  uncount
local function free_claim(line, id, claim)
  redis.call('HDEL', line.claims, id)
  redis.call('ZREM', line.leases, id)
  redis.call('SREM', line.active, id)
  redis.call('DEL', line.lock .. id)
  if claim.counted then uncount(line, claim.queue) end
end

--- How many milliseconds the lock of a job still lasts; nil when there is none. A lock without an
--- end gets the one that the document gives every lock, so that its holder has to renew it.
local function lock_left(line, id)
  local left = redis.call('PTTL', line.lock .. id)
  if left == -1 then
    left = 30000
    redis.call('PEXPIRE', line.lock .. id, left)
  end
  return left > 0 and left or nil
end
