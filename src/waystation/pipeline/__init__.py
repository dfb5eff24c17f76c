"""Everything that happened, on Spark: events to history to statistics and back to the queues."""
