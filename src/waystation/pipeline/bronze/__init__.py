"""Bronze: the event streams, stored as they are read."""
