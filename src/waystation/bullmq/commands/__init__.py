"""`waystation bullmq`: queues that Node's BullMQ shares."""
