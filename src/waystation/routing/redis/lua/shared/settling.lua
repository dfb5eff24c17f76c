--- Let a job that failed wait for its next attempt; its outcome is the part of ARGV that begins at
--- `first`: data result delay route reason attempt.
--- uses  whole emit_event error_in push_waiting route_of dead_letter_unreadable
local function try_again(line, now, id, claim, keep_s, first)
  local delay, route = tonumber(ARGV[first + 2]), ARGV[first + 3]
  redis.call('SET', line.data .. id, ARGV[first])
  redis.call('SET', line.result .. id, ARGV[first + 1], 'EX', keep_s)
  if route ~= '' then
    redis.call('HSET', line.routes, id, route)
  else
    route = route_of(line, id)
  end
  emit_event(line, now, 'retry', claim.queue, id, 'worker', claim.worker, 'attempt', ARGV[first + 5],
    'delay', ARGV[first + 2], 'reason', ARGV[first + 4], 'error', error_in(ARGV[first + 1]),
    'took', whole(now - claim.since))
  if delay > 0 then
    redis.call('ZADD', line.delayed, whole(now + delay), id)
    redis.call('SET', line.status .. id, 'delayed')
    emit_event(line, now, 'delayed', claim.queue, id, 'due', whole(now + delay), 'kind', 'retry')
  elseif not route then
    dead_letter_unreadable(line, now, id, 'malformed', claim.queue)
  elseif push_waiting(line, id, route) then
    emit_event(line, now, 'waiting', claim.queue, id, 'prev', 'active')
  end
end

--- Make a dead letter of a job that failed for good; its outcome is the part of ARGV that begins at
--- `first`: data result meta attempt.
--- uses  whole emit_event error_in dead_letter
local function give_up(line, now, id, claim, keep_s, first)
  redis.call('SET', line.data .. id, ARGV[first])
  redis.call('SET', line.result .. id, ARGV[first + 1], 'EX', keep_s)
  emit_event(line, now, 'failed', claim.queue, id, 'worker', claim.worker, 'attempt', ARGV[first + 3],
    'error', error_in(ARGV[first + 1]), 'took', whole(now - claim.since))
  dead_letter(line, now, id, claim.queue, ARGV[first + 2], claim.worker, ARGV[first + 3])
  redis.call('HDEL', line.stalls, id)
end

--- Let a job that its worker did not finish wait again, at the turn it had.
--- uses  emit_event route_of put_back dead_letter_unreadable
local function hand_back(line, now, id, claim)
  local route, why = route_of(line, id)
  emit_event(line, now, 'returned', claim.queue, id, 'worker', claim.worker)
  if not route then return dead_letter_unreadable(line, now, id, why, claim.queue) end
  put_back(line, id, route, claim.turn)
end
