--- Stop the script, before it has written, when a job's parent, or one of those above that may go
--- with it, has a key of another type.
--- uses  check_parent field_of
local function check_ancestors(near, parent_key, seen)
  while parent_key and not seen[parent_key] do
    check_parent(near, parent_key, seen)
    parent_key = field_of(parent_key, 'parentKey')
  end
end
