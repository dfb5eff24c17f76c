"""Silver transforms: events to steps, steps to attempts, items and workers."""
