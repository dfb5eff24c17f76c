"""The pages that browsers open, as HTTP routes."""
