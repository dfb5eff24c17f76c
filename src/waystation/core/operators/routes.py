"""Operator routes to sign in and to manage keys."""

from typing import Annotated

import msgspec

from waystation.core.durations import instant
from waystation.core.errors import InvalidOption, NotFound
from waystation.core.http.endpoints import endpoint, stated
from waystation.core.http.exchange import Answer, Cookies, Request, answer, require_own_site
from waystation.core.operators.operators import SIGNED_IN_S, Operator, Operators
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


SIGN_IN = "/api/v1/admin/sign-in"
OPERATORS = "/api/v1/admin/operators"
_SIGNS = (400, 401, 403, 413, 415, 429, 503)


class OperatorRoutes:
    """Who may operate."""

    def __init__(self, operators: Operators, cookies: Cookies) -> None:
        self._cookies = cookies
        self._operators = operators

    @endpoint(f"POST {SIGN_IN}", takes=SignIn, gives={200: Who}, fails=_SIGNS)
    async def sign_in(self, request: Request) -> Answer:
        """Sign in with a key; the answer sets a cookie."""
        require_own_site(request)
        asked = await request.read(SignIn)
        who, token = await self._operators.sign_in(request, asked.key)
        return answer(_listed(who), 200, self._cookie(token, SIGNED_IN_S))

    @endpoint(f"GET {SIGN_IN}", gives={200: Who}, fails=_SIGNS, scope="viewer")
    async def who(self, request: Request) -> Answer:
        """The operator who is signed in."""
        return answer(_listed(await self._operators.known(request)))

    @endpoint(f"DELETE {SIGN_IN}", gives={204: None}, fails=_SIGNS)
    async def sign_out(self, request: Request) -> Answer:
        """Sign out."""
        require_own_site(request)
        await self._operators.sign_out(request)
        return Answer(204, headers=[self._cookie("", 0)])

    @endpoint(f"GET {OPERATORS}", gives={200: Everybody}, scope="admin")
    async def every(self, request: Request) -> Answer:
        """List operators, without their keys."""
        await self._operators.require(request, "admin")
        listed = [_listed(each) for each in await self._operators.every()]
        return answer(Everybody(operators=listed))

    @endpoint(f"POST {OPERATORS}", takes=NewKey, gives={201: MadeKey}, scope="admin")
    async def issue(self, request: Request) -> Answer:
        """Create an operator's key; it is shown once."""
        who = await self._operators.require(request, "admin")
        asked = await request.read(NewKey)
        if asked.role not in list(Role):
            raise InvalidOption(f"role must be one of {', '.join(Role)}, got {asked.role!r}")
        role = Role(asked.role)
        key = await self._operators.issue(asked.name, role, queues=asked.queues, days=asked.days)
        after = {"name": asked.name, "role": asked.role, "queues": asked.queues}
        await self._operators.note(who, "issue-key", "", before=None, after=after)
        return answer(MadeKey(name=asked.name, role=asked.role, key=key), 201)

    @endpoint(f"DELETE {OPERATORS}/{{name}}", gives={204: None}, scope="admin")
    async def withdraw(self, request: Request) -> Answer:
        """Revoke the keys of a name and their sign-ins."""
        who = await self._operators.require(request, "admin")
        name = request.slots["name"]
        if not await self._operators.withdraw(name):
            raise NotFound("there is no key of that name")
        await self._operators.note(who, "withdraw-key", "", before=name, after=None)
        return Answer(204)

    def _cookie(self, token: str, max_age: int) -> tuple[bytes, bytes]:
        # Nobody is led into an operator's page from elsewhere already signed in.
        return self._cookies.strict_header(self._operators.cookie, token, max_age)


def _listed(who: Operator) -> Who:
    return Who(
        name=who.name,
        role=who.role.value,
        queues=who.queues,
        expires_at=_rfc3339(who.expires_ms) if who.expires_ms else None,
    )


def _rfc3339(at_ms: int) -> str:
    return instant(at_ms).isoformat(timespec="milliseconds")
