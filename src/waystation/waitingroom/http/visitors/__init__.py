"""Routes for visitors."""
