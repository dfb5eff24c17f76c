"""What was told, kept for ever."""
