--- The parts of a claim's record: token, whether it is counted, turn, since when, worker, type.
local function claim_of(record)
  local token, counted, turn, since, worker, queue =
    string.match(record, '^(%S+) (%d) (%S+) (%S+) (%S+) (.*)$')
  return {
    token = token, counted = counted == '1', turn = tonumber(turn), since = tonumber(since),
    worker = worker, queue = queue,
  }
end
