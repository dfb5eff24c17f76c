"""Connectors, used as their pages say."""
