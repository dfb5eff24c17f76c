--- What a job's key starts with, and its id; `near` is the base of a queue it is related to.
local function locate_job(key, near)
  -- Neither a queue's name nor a prefix that both share can be taken for a part of the id.
  local prefix = string.match(near, '^(.*:)[^:]+:$')
  if prefix and string.sub(key, 1, #prefix) == prefix then
    local name, id = string.match(string.sub(key, #prefix + 1), '^([^:]+:)(.+)$')
    if name then return prefix .. name, id end
  end
  return string.match(key, '^(.*:)([^:]+)$')
end
