"""BullMQ in Redis: keys, scripts, and jobs packed for them. Internal."""
