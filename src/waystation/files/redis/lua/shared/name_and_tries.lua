--- A job's id and the number of its coming try; what is no job has a name made of its bytes.
local function name_and_tries(raw)
  -- As producers of ours write it, which is most of what comes and need not be read as a whole.
  local id, retries = string.match(raw, '^{"id":"([%w_%-]+)","filepath":".-",'
    .. '"filesize":%d+,"priority":"[^"]*","retries":(%d+)[,}]')
  if not id then
    local is_json, job = pcall(cjson.decode, raw)
    job = is_json and type(job) == 'table' and job or {}
    if type(job.id) == 'string' and job.id ~= '' and type(job.filepath) == 'string' then
      id, retries = job.id, job.retries
    else
      id = 'poison-' .. string.sub(redis.sha1hex(raw), 1, 16)
    end
  end
  return id, math.min(tonumber(retries) or 0, 2 ^ 31) + 1
end
