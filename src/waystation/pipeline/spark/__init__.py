"""Spark itself: its Java, its session, its workers, and what it says."""
