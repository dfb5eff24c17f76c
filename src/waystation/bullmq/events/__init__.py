"""The events of a queue: reading them, waiting for them, publishing one's own."""
