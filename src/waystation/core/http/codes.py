"""Error codes that all HTTP servers share, in one closed list.

An error of the library that reaches a caller is reported under its own code; `waystation.errors`
lists those.
"""
# names of errors, not passwords

from enum import StrEnum


class Code(StrEnum):
    """The `code` of a problem document."""

    # Requests
    MALFORMED = "MALFORMED"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    BODY_TOO_SLOW = "BODY_TOO_SLOW"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    NOT_FOUND = "NOT_FOUND"
    INVALID_INPUT = "INVALID_INPUT"
    RATE_LIMITED = "RATE_LIMITED"
    CROSS_SITE = "CROSS_SITE"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    INTERNAL = "INTERNAL"
    # Operators
    KEY_REQUIRED = "KEY_REQUIRED"
    KEY_INVALID = "KEY_INVALID"
    CODE_INVALID = "CODE_INVALID"
    SIGNED_OUT = "SIGNED_OUT"
    NOT_ALLOWED = "NOT_ALLOWED"
    NOT_CONFIRMED = "NOT_CONFIRMED"
    CHANGED_MEANWHILE = "CHANGED_MEANWHILE"
    EXISTS = "EXISTS"
    NOT_EMPTY = "NOT_EMPTY"
