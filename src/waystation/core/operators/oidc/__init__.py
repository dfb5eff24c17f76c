"""Operators who sign in with an identity provider (OpenID Connect)."""
