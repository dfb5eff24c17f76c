"""What builds and describes the project; no part of the product."""
