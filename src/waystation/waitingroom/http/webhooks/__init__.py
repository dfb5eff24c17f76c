"""Webhooks: what happens in a room, told to a site that wants to know."""
