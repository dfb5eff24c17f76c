"""Node's BullMQ and ours on one queue, and what each leaves in Redis."""
