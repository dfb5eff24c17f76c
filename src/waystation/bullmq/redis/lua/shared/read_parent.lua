--- What a child's hash says about its parent; when that is unreadable, what the key says.
local function read_parent(parent_key, text)
  local is_read, parent = pcall(cjson.decode, text or '')
  if is_read and type(parent) == 'table' and parent.id and parent.queueKey then return parent end
  local queue_key, id = string.match(parent_key, '^(.*):([^:]*)$')
  return { id = id, queueKey = queue_key }
end
