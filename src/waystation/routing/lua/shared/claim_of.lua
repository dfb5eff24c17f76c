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
