"""What was told, folded into what happened: attempts, items and workers."""
