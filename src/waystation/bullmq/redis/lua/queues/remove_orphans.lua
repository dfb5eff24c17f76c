--- Find jobs that no state knows of, at most so many, and delete what is kept about them; the reply
--- has their ids.
--- keys  wait paused active prioritized delayed completed failed waiting_children grouped absent
--- args  base most:int dry_run ids... -> texts
--- uses  forget_job
local sets = { completed, failed, delayed, prioritized, waiting_children, grouped }
local lists = { wait, active, paused }

local function is_known(id)
  for _, key in ipairs(sets) do
    if redis.call('ZSCORE', key, id) then return true end
  end
  for _, key in ipairs(lists) do
    if redis.call('LPOS', key, id) then return true end
  end
  return false
end

local found = {}
for place = ids, #ARGV do
  local job = base .. ARGV[place]
  -- Nothing else that is a hash says when it was made: neither a scheduler nor a parent's results.
  if redis.pcall('HEXISTS', job, 'timestamp') == 1 and not is_known(ARGV[place]) then
    if dry_run == '' then forget_job(job) end
    found[#found + 1] = ARGV[place]
    if #found == tonumber(most) then break end
  end
end
return found
