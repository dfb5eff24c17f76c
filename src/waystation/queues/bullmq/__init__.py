"""BullMQ in Python: what Node writes we read, and the other way round."""
