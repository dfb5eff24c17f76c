"""The schedules of a queue: cron, slots, and the jobs they make. Internal."""
