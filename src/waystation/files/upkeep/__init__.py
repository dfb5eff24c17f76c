"""Upkeep: jobs of dead workers, retries that are due, files without a handler."""
