"""A directory turned into work."""
