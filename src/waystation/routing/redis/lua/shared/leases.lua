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

--- Take a claim away whose job was cancelled, and let its holder know. Its place under a limit stays
--- taken until the handler has ended, or for as long as the lease lasts.
--- uses  free_claim tell_holder
local function stop_claim(line, id, claim)
  if claim.counted then
    local deadline = redis.call('ZSCORE', line.leases, id) or 0
    redis.call('HSET', line.stopping, claim.token .. ' ' .. id, deadline .. ' 0 ' .. claim.queue)
    claim.counted = false
  end
  free_claim(line, id, claim)
  tell_holder(line, id, claim.token)
end

--- Tell the worker that runs a job that it was cancelled.
local function tell_holder(line, id, token)
  redis.call('XADD', line.stopped, 'MAXLEN', '~', 256, '*', 'id', id, 'token', token)
end

--- Give the place back that the handler of a cancelled job had under a limit; `name` is the token
--- of its claim and its id.
--- uses  uncount
local function end_stopping(line, name)
  local queue = string.match(redis.call('HGET', line.stopping, name) or '', '^%S+ %d+ (.*)$')
  if redis.call('HDEL', line.stopping, name) == 1 and queue then uncount(line, queue) end
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
