"""Signing keys, and the tokens that are signed with them."""
