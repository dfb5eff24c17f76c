"""Feedback: small results of the history, written back to the queues and rooms that use them."""
