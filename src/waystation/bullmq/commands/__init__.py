"""`waystation bullmq`: queues that Node's BullMQ and ours share."""
