"""Fetching: which jobs a worker may take, and the claims made of them."""
