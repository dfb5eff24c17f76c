"""Redrive: jobs of the history added to their queues again."""
