"""Webhooks: requests that are signed, and that cannot reach private networks."""
