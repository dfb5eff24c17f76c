"""Search over jobs that are in the store, and over those that the history remembers."""
