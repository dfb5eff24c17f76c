--- Set aside a job whose data says nothing; drop an id that has no data at all.
--- uses  bury tell whole
local function bury_unreadable(line, now, id, why)
  if why == 'gone' then
    redis.call('DEL', line.status .. id)
    tell(line, now, 'removed', '', id, 'reason', 'it has no data')
    return
  end
  local sentence = 'the job data must be a JSON object with a type'
  bury(line, now, id, '', cjson.encode({
    reason = 'MALFORMED', error = { name = 'Malformed', message = sentence }, attempts = 0, at = now,
  }), '', 0)
end
