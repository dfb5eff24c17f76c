"""Spark data sources: event streams in, queue snapshots in, bulk enqueue out."""
