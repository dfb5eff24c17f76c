"""Bodies of the operators' routes."""

from typing import Annotated

import msgspec

from waystation.core.http.endpoints import stated
from waystation.core.operators.roles import Role


class SignIn(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A key, shown once for a cookie."""

    key: str


class Who(msgspec.Struct, kw_only=True):
    """Somebody who may operate."""

    name: str
    role: str
    queues: list[str]
    """The only queues and rooms; empty for all."""
    expires_at: str | None


class Everybody(msgspec.Struct, kw_only=True):
    """All who may operate."""

    operators: list[Who]


class NewKey(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A key to be made."""

    name: Annotated[str, stated(minLength=1, maxLength=64)]
    role: Annotated[str, stated(enum=list(Role))] = "operator"
    """connector, viewer, operator or admin."""
    queues: list[str] = []
    days: Annotated[float, stated(exclusiveMinimum=0, maximum=3650)] = 90


class MadeKey(msgspec.Struct, kw_only=True):
    """A key, for the only time."""

    name: str
    role: str
    key: str
