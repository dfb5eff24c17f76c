--- The job type that a signature begins with; types are the queues of this line.
local function queue_of(signature)
  return string.match(signature, '^%["([^"\\]*)"') or cjson.decode(signature)[1]
end
