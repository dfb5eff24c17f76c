"""The parts that all job queues share: lost answers, wake-up, server time, background worker."""
