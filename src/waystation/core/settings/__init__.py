"""Settings: one loader for commands and code."""
