--- Set aside a job whose data says nothing, or is gone; an id whose job has ended is only dropped.
--- uses  bury tell whole text_of
local function bury_unreadable(line, now, id, why, queue)
  local status = text_of(line.status .. id)
  if why == 'gone' and (status == 'completed' or status == 'failed') then
    redis.call('HDEL', line.routes, id)
    redis.call('HDEL', line.stalls, id)
    tell(line, now, 'removed', queue or '', id, 'reason', 'it had ended: ' .. status)
    return
  end
  local reason, name = 'MALFORMED', 'Malformed'
  local sentence = 'the job data must be a JSON object with a type'
  if why == 'gone' then
    reason, name = 'NO_DATA', 'NoData'
    sentence = 'there is nothing under ' .. line.data .. id
  end
  bury(line, now, id, queue or '', cjson.encode({
    reason = reason, error = { name = name, message = sentence }, attempts = 0, at = now,
  }), '', 0)
end
