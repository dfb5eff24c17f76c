"""Webhooks: events of a room, sent to a site."""
