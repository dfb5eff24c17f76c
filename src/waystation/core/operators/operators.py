"""Operators: keys that are shown once, stored as digests, limited in role and time."""

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from waystation.core import codec
from waystation.core.clock import Clock
from waystation.core.errors import InvalidOption, Malformed, StoreBusy
from waystation.core.http.exchange import Request, digest_of, require_own_site
from waystation.core.http.pace import Pace
from waystation.core.http.problems import Code, Problem
from waystation.core.operators.roles import Grant, Role
from waystation.core.store.commands import fields_of
from waystation.core.store.connection import Store
from waystation.core.store.keyspace import Hash, Keyspace, Stream, String
from waystation.core.store.script import Client, script
from waystation.core.telemetry.logs import get_logger


class OperatorKeys(Keyspace, root=""):
    """The keys of those who may operate; all servers of a store share them."""

    operators = Hash("admin:keys", "who may operate, by the digest of their key")
    signed_in = String("admin:session:<what>", "the key that somebody signed in with", ttl="12 h")
    sign_in = String("admin:oidc:<what>", "somebody at the identity provider", ttl="10 min")
    audit = Stream("admin:audit", "who changed what, before and after")

    def __init__(self, name: str = "http") -> None:
        super().__init__(name)

    def of(self, what: str) -> "OperatorKeys":
        """The same keys with those of one request filled in."""
        return self.within(OperatorKeys, what=what)


_log = get_logger(__name__)

AUDIT_CAP = 10_000
SIGNED_IN_S = 12 * 3600
ELSEWHERE = "oidc:"
"""What the names of those begin with whom an identity provider knows; no key has such a name."""
_TOO_MANY = "too many wrong keys came from there"


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who may operate."""

    name: str
    role: Role
    queues: list[str] = []
    """The only rooms they may touch; empty for all."""
    expires_ms: int = 0
    """0 for never."""
    more: list[Grant] = []
    """What they may do besides, in other rooms or in a weaker role."""

    def may(self, scope: str, queue: str | None) -> bool:
        """Whether they may do something of this scope to this room."""
        own = Grant(role=self.role, queues=tuple(self.queues))
        return any(each.allows(scope, queue) for each in (own, *self.more))


class AuditLog(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what, the latest first."""

    entries: list[dict[str, str]]
    total: int
    """How many are kept."""


class Operators:
    """Recognises operators by their keys, and remembers what they did."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        cookie: str = "__Host-wr_o",
        floor_s: float = 0.0,
        guess_s: float = 6.0,
    ) -> None:
        self.cookie = cookie
        """The name of the cookie of those who signed in."""
        self._store = store
        self._clock = clock
        self._keys = OperatorKeys()
        # Wrong keys are few among people and many among guessers.
        self._wrong = Pace(every_s=guess_s, burst=10, clock=clock)
        # Whoever could change things without end could push what they did out of the audit.
        self._changes = Pace(every_s=floor_s, burst=60, clock=clock)

    async def issue(
        self, name: str, role: Role, *, queues: list[str] | None = None, days: float = 90
    ) -> str:
        """Make a key; this is the only time that it can be seen."""
        if not name or len(name) > 64 or not name.isprintable() or name.startswith(ELSEWHERE):
            raise InvalidOption(
                f"a key needs a name of 1 to 64 characters without {ELSEWHERE}, got {name!r}"
            )
        if not 0 < days <= 3650:
            raise InvalidOption(f"days must be above 0, at most 3650, got {days}")
        key = f"wrk_{secrets.token_urlsafe(32)}"
        until = self._clock.now_ms() + int(days * 86_400_000)
        who = Operator(name=name, role=role, queues=_names(queues or []), expires_ms=until)
        await self._store.ask("HSET", self._keys.operators, digest_of(key), codec.encode(who))
        return key

    async def withdraw(self, name: str) -> int:
        """Let the keys of this name count no longer; how many there were."""
        return await self._forget([at for at, who in await self._kept() if who.name == name])

    async def every(self) -> list[Operator]:
        """Everybody who has a key."""
        return sorted((who for _, who in await self._kept()), key=lambda each: each.name)

    async def require(self, request: Request, scope: str, queue: str | None = None) -> Operator:
        """Whose key the request shows; a Problem when it does not allow what is asked."""
        who = await self.known(request)
        if not who.may(scope, queue):
            alone = f" of {', '.join(who.queues)} alone" if who.queues else ""
            raise Problem(403, Code.NOT_ALLOWED, f"a key for {who.role}{alone} does not allow this")
        return who

    async def require_any(self, request: Request, scope: str) -> Operator:
        """Whose key it is; a Problem when it allows this nowhere."""
        who = await self.known(request)
        queues = [*who.queues, *(queue for grant in who.more for queue in grant.queues)]
        if not any(who.may(scope, queue) for queue in queues):
            return await self.require(request, scope)
        return who

    async def known(self, request: Request) -> Operator:
        """Who asks: by a key, or by the cookie of somebody who signed in."""
        scheme, _, shown = request.header("authorization").partition(" ")
        key = shown.strip() if scheme.lower() == "bearer" else request.header("x-admin-key")
        looks = request.method in ("GET", "HEAD")
        if key:
            who = await self._owner(request, key)
        else:
            # A browser sends a cookie whoever wrote the page; a key is only sent on purpose.
            if not looks:
                require_own_site(request)
            who = await self._signed_in(request)
        if not looks and who.role is not Role.CONNECTOR:
            self._changes.require(who.name)
        return who

    async def _signed_in(self, request: Request) -> Operator:
        cookie = request.cookies.get(self.cookie, "")
        if not cookie:
            raise _unknown(Code.KEY_REQUIRED, "this needs an operator's key")
        kept = await self._store.ask("GET", self._keys.of(digest_of(cookie[:256])).signed_in)
        who = await self._find(kept.decode()) if kept else None
        # Not counted as a wrong key: a page left open over night would lock its whole office out.
        if who is None:
            raise _unknown(Code.SIGNED_OUT, "the sign-in is over, sign in again")
        return who

    async def sign_in(self, request: Request, key: str) -> tuple[Operator, str]:
        """Whose key this is, and the text of a cookie that stands for it."""
        who = await self._owner(request, key)
        self._changes.require(who.name)
        await self.note(who, "sign-in", "", before=None, after={"by": "key"})
        return who, await self._token_for(digest_of(key[:256]))

    async def welcome(self, issuer: str, subject: str, granted: Sequence[Grant]) -> str:
        """The text of a cookie for somebody whom an identity provider knows.

        They are one of the operators for as long as the cookie counts, or until withdrawn.
        """
        until = self._clock.now_ms() + SIGNED_IN_S * 1000
        most, *more = granted
        who = Operator(
            name=ELSEWHERE + subject,
            role=most.role,
            queues=_names(most.queues),
            expires_ms=until,
            more=more,
        )
        # No digest of a key has a colon in it, so no key can be made to fit.
        at = ELSEWHERE + digest_of(f"{issuer}\n{subject}")
        await forget_guests(self._store.hot, self._keys, guest=ELSEWHERE, now=self._clock.now_ms())
        await self._store.ask("HSET", self._keys.operators, at, codec.encode(who))
        after = {"by": issuer, "subject": subject}
        await self.note(who, "sign-in", "", before=None, after=after)
        return await self._token_for(at)

    async def _kept(self) -> list[tuple[bytes, Operator]]:
        kept = fields_of(await self._store.ask("HGETALL", self._keys.operators))
        found = list[tuple[bytes, Operator]]()
        for at, text in kept.items():
            try:
                found.append((at, codec.decode(text, Operator)))
            except Malformed as error:
                # One of a later version keeps nobody from withdrawing another's.
                _log.error("operator_unreadable", error)
        return found

    async def _forget(self, gone: list[bytes]) -> int:
        return int(await self._store.ask("HDEL", self._keys.operators, *gone)) if gone else 0

    async def _token_for(self, at: str) -> str:
        token = secrets.token_urlsafe(32)
        await self._store.ask(
            "SET", self._keys.of(digest_of(token)).signed_in, at, "EX", SIGNED_IN_S
        )
        return token

    async def sign_out(self, request: Request) -> None:
        """Let the cookie of a request count no longer."""
        token = request.cookies.get(self.cookie, "")
        await self._store.ask("DEL", self._keys.of(digest_of(token[:256])).signed_in)

    async def _owner(self, request: Request, key: str) -> Operator:
        self._wrong.require_left(request.address, _TOO_MANY)
        who = await self._find(digest_of(key[:256]))
        if who is None:
            self._wrong.count(request.address)
            raise _unknown(Code.KEY_INVALID, "the key is not valid")
        return who

    async def _find(self, at: str) -> Operator | None:
        kept = await self._store.ask("HGET", self._keys.operators, at)
        who = codec.decode(kept, Operator) if kept else None
        return None if who is None or 0 < who.expires_ms <= self._clock.now_ms() else who

    async def note(
        self, who: Operator, action: str, queue: str, *, before: Any, after: Any
    ) -> None:
        """Write down who changed what; where the store is full, in the log.

        What was done is done by then, and an operator who makes room must not be told otherwise.
        """
        fields: dict[str, Any] = {
            "who": who.name,
            "role": who.role.value,
            "action": action,
            "queue": queue,
            "before": codec.encode(before),
            "after": codec.encode(after),
            "at": self._clock.now_ms(),
        }
        pairs = [part for pair in fields.items() for part in pair]
        try:
            await self._store.ask("XADD", self._keys.audit, "MAXLEN", "~", AUDIT_CAP, "*", *pairs)
        except StoreBusy as error:
            about = {"operator": who.name, "action": action, "queue": queue}
            _log.error("audit_not_written", error, **about)

    async def audit(self, count: int, queue: str | None = None) -> AuditLog:
        """What was done, to one room or queue or to all, the latest first."""
        every = queue is None
        most = ("COUNT", count) if every else ()
        raw = await self._store.ask("XREVRANGE", self._keys.audit, "+", "-", *most)
        found = list[dict[str, str]]()
        for id, fields in raw:
            said = {codec.as_text(k): codec.as_text(v) for k, v in fields_of(fields).items()}
            found.append({"id": id.decode(), **said})
        if every:
            return AuditLog(entries=found, total=await self._store.ask("XLEN", self._keys.audit))
        own = [each for each in found if each.get("queue") == queue]
        return AuditLog(entries=own[:count], total=len(own))


@script(reply=bool)
async def forget_guests(redis: Client, keys: OperatorKeys, *, guest: str, now: int) -> bool:
    """Forget those whom an identity provider knew and whose sign-in is over."""
    ...


def _names(queues: Sequence[str]) -> list[str]:
    # The id of a room has braces, its name has none.
    return [each.strip("{}") for each in queues]


def _unknown(code: Code, detail: str) -> Problem:
    asks = {"www-authenticate": 'Bearer realm="waystation"'}
    return Problem(401, code, detail, headers=asks)
