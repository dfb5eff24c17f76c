"""Operators: keys, roles and sign-ins."""
