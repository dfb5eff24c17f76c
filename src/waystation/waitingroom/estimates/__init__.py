"""Estimated waits: the model learnt from history and the wait of each visitor."""
