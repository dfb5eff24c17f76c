"""`waystation tasks`: the workers and the schema of typed tasks."""
