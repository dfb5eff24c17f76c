"""Payloads: data and results of jobs encrypted, or kept outside the store."""
