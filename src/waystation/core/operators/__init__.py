"""Operators: keys, roles, second factors and sign-ins."""
