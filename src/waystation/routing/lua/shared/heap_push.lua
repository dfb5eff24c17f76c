--- Put an entry into a heap that has the smallest turn on top.
local function heap_push(heap, entry)
  local at = #heap + 1
  while at > 1 do
    local above = math.floor(at / 2)
    if heap[above].turn <= entry.turn then break end
    heap[at], at = heap[above], above
  end
  heap[at] = entry
end
