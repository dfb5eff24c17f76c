"""Refresh: new events folded into silver, and gold tables brought up to date."""
