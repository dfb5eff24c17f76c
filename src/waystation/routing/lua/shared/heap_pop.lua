--- Take the entry with the smallest turn off a heap; nil when it is empty.
local function heap_pop(heap)
  local top, last = heap[1], table.remove(heap)
  if #heap == 0 then return top end
  local at, below = 1, 2
  while below <= #heap do
    if heap[below + 1] and heap[below + 1].turn < heap[below].turn then below = below + 1 end
    if last.turn <= heap[below].turn then break end
    heap[at] = heap[below]
    at, below = below, 2 * below
  end
  heap[at] = last
  return top
end
