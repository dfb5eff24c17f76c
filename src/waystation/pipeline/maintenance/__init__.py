"""Maintenance of a history: rebuild, backfill, compaction, retention, erasure."""
