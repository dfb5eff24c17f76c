"""Lines of jobs, files and people, kept in Redis, remembered by Spark."""

__version__ = "0.1.0"
