"""The migrations of the outbox."""
