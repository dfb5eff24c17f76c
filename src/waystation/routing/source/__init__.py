"""A queue as a source of work for the runtime: claims, outcomes, wake-up. Internal."""
