local activeJobs = redis.call("LRANGE", KEYS[1], 0, -1)
local stalledCount = 0

for _, jobId in ipairs(activeJobs) do
    local lockKey = ARGV[1] .. jobId .. ":lock"
    local lockExists = redis.call("EXISTS", lockKey)

    if lockExists == 0 then
        -- Lock expired, job is stalled
        local jobKey = ARGV[1] .. jobId
        local jobData = redis.call("HGETALL", jobKey)

        if #jobData > 0 then
            -- Parse priority from job opts
            local priority = nil
            for i = 1, #jobData, 2 do
                if jobData[i] == "opts" then
                    -- Parse JSON to get priority (simplified)
                    -- priority = parseJSON(jobData[i+1]).priority
                end
            end

            -- Increment attempts
            redis.call("HINCRBY", jobKey, "attemptsMade", 1)

            -- Remove from active
            redis.call("LREM", KEYS[1], 0, jobId)

            -- Requeue
            if priority and priority > 0 then
                redis.call("ZADD", KEYS[3], priority, jobId)
            else
                redis.call("RPUSH", KEYS[2], jobId)
            end

            -- Emit stalled event
            redis.call("XADD", KEYS[4], "*",
                "event", "stalled",
                "jobId", jobId,
                "timestamp", ARGV[2]
            )

            stalledCount = stalledCount + 1
        end
    end
end

return stalledCount
