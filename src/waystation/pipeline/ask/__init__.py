"""Questions to the history, answered by DuckDB without Java and without importing Spark."""
