"""Delta tables: written by tasks, committed by the driver."""
