"""Webhooks: what happens to jobs, sent to other programs."""
