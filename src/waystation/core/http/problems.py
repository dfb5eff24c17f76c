"""Problem documents: errors as RFC 9457 writes them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.errors import (
    CircuitOpen,
    InvalidInput,
    InvalidOption,
    LeaseLost,
    NotFound,
    RateLimited,
    StoreError,
    StoreUnsuitable,
    WaystationError,
    WrongState,
)

KIND = b"application/problem+json"


class Code(StrEnum):
    """The `code` of a problem document; an error of the library is reported under its own."""

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


class Problem(Exception):
    """An error answer, raised where it is found."""

    def __init__(
        self,
        status: int,
        code: StrEnum,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code: str = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more

    def body(self, request_id: str) -> bytes:
        """The document."""
        return codec.encode_shown(
            {
                "type": f"urn:waystation:problem:{self.code.lower().replace('_', '-')}",
                "title": self.code.replace("_", " ").capitalize(),
                "status": self.status,
                "code": self.code,
                "detail": self.detail,
                "request_id": request_id,
                **self.more,
            }
        )


class ProblemBody(msgspec.Struct, kw_only=True, rename={"kind": "type"}):
    """A problem document, for the reference."""

    kind: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str


# The first that fits counts, so the narrow ones come first.
_STATUS: tuple[tuple[type[WaystationError], int], ...] = (
    (InvalidOption, 422),
    (InvalidInput, 400),
    (NotFound, 404),
    (RateLimited, 429),
    (WrongState, 409),
    (LeaseLost, 409),
    (CircuitOpen, 503),
    (StoreError, 503),
)
_OF_THE_STORE = (
    "the store does not answer right now",
    "the store does not allow what this needs; the server's log says more",
)


def from_error(error: Exception) -> Problem:
    """The problem of an error; one that is not ours becomes a 500 without its message."""
    if isinstance(error, Problem):
        return error
    if not isinstance(error, WaystationError):
        return Problem(500, Code.INTERNAL, "an unexpected error; the server has logged it")
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    # What the store says is for its operator, not for whoever asks.
    detail = _OF_THE_STORE[isinstance(error, StoreUnsuitable)] if status == 503 else str(error)
    problem = Problem(status, Code.INTERNAL, detail)
    problem.code = error.code
    if isinstance(error, RateLimited):
        problem.headers["retry-after"] = str(max(1, -(-error.retry_after_ms // 1000)))
    if status == 503:
        problem.headers["retry-after"] = "5"
    return problem
