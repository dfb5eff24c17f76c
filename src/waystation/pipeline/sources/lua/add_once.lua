--- Add what this batch has not added before, with the product's own script.
--- A job is its key and as many arguments of that script as `width` says; before the jobs come the
--- `lead` arguments that the script wants once. KEYS behind the first two are the script's.
--- The reply has how many jobs are new, were there before and were refused; a closed batch takes none.
--- keys  receipt done
--- args  keep_ms:int width:int lead:int more:str|bytes... -> tuple[int, int, int]
local function add(KEYS, ARGV) return {} end

if redis.call('HEXISTS', receipt, 'closed_ms') == 1 then return { -1, 0, 0 } end
local first, stride, keys = more + lead, width + 1, {}
for at = first, #ARGV, stride do keys[#keys + 1] = ARGV[at] end
local known = redis.call('SMISMEMBER', done, unpack(keys))

local fresh, seen, line_keys, line_args = {}, {}, {}, {}
for nth = 3, #KEYS do line_keys[nth - 2] = KEYS[nth] end
for nth = more, first - 1 do line_args[#line_args + 1] = ARGV[nth] end
for nth, key in ipairs(keys) do
  if known[nth] == 0 and not seen[key] then
    seen[key] = true
    fresh[#fresh + 1] = key
    local at = first + (nth - 1) * stride
    for argument = at + 1, at + width do line_args[#line_args + 1] = ARGV[argument] end
  end
end

local refused = 0
if #fresh > 0 then
  for _, id in ipairs(add(line_keys, line_args)) do
    if type(id) == 'number' and id < 0 then refused = refused + 1 end
  end
  redis.call('SADD', done, unpack(fresh))
  redis.call('PEXPIRE', done, keep_ms)
end
redis.call('HSETNX', receipt, 'jobs', 0)
redis.call('PEXPIRE', receipt, keep_ms)
return { #fresh, #keys - #fresh, refused }
