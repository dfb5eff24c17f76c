"""Requests and answers on ASGI."""

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from typing import Any, TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec

from waystation.core import codec
from waystation.core.errors import (
    InvalidInput,
    Malformed,
    NotReplicated,
    StoreBusy,
    StoreUnreachable,
)
from waystation.core.http.addresses import Network, client_of, is_among, visitor_address
from waystation.core.http.problems import KIND, Code, Problem, from_error
from waystation.core.telemetry.logs import get_logger

QUICK_S = 1.0
"""How long a body may be under way before it counts as slow."""
MOST_SLOW = 20
"""Slow bodies of one client at a time; those beyond get no longer than a quick one."""


class SlowBodies:
    """The slow bodies that one process waits for, by client."""

    def __init__(self, most: int = MOST_SLOW, quick_s: float = QUICK_S) -> None:
        self._most = most
        self._quick_s = quick_s
        self._under_way = Counter[str]()

    @contextmanager
    def counted(self, address: str, limit: asyncio.Timeout) -> Generator[None]:
        """Count the body that the block waits for, and end its time if it is one too many."""
        loop = asyncio.get_running_loop()
        counted: list[str] = []

        def count() -> None:
            client = client_of(address)
            counted.append(client)
            self._under_way[client] += 1
            if self._under_way[client] > self._most:
                limit.reschedule(loop.time())

        timer = loop.call_later(self._quick_s, count)
        try:
            yield
        finally:
            timer.cancel()
            for client in counted:
                self._under_way[client] -= 1
                if not self._under_way[client]:
                    del self._under_way[client]


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

MOST_BODY = 4096
"""Bytes of a visitor's request; everything a visitor may say fits."""

PATIENCE_S = 10.0
"""How long a body may take to come."""
OURS = ("__Host-wr_", "wr_v=", "wr_q_", "wr_s_", "wr_o=", "wr_j=")
"""What the room's cookies begin with, where they are secure and where they are not."""

T = TypeVar("T")
_JSON = b"application/json"


class Answer(msgspec.Struct, frozen=True):
    """What goes back."""

    status: int = 200
    body: bytes = b""
    kind: bytes = _JSON
    headers: Headers = []

    async def send(self, send: Send) -> None:
        """Put it on its way."""
        head, body = self.messages()
        await send(head)
        await send(body)

    def messages(self) -> tuple[Message, Message]:
        """The two messages that say it; they may be sent again and again."""
        head = [
            (b"content-type", self.kind),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        # No body, no type: a 204 or 304 says all there is to say.
        if self.status in (204, 304):
            head = self.headers
        return (
            {"type": "http.response.start", "status": self.status, "headers": head},
            {"type": "http.response.body", "body": self.body},
        )


NO_STORE = (b"cache-control", b"no-store")


def answer(body: Any, status: int = 200, *headers: tuple[bytes, bytes]) -> Answer:
    """A JSON answer that nobody may keep."""
    return Answer(status, codec.encode_shown(body), headers=[NO_STORE, *headers])


class Request:
    """What came, read only as far as somebody asks."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        address: str,
        *,
        slow: SlowBodies,
        proxied: bool = False,
    ) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.address = address
        """Where the visitor really comes from, as far as we may believe it."""
        self.proxied = proxied
        """Whether it came from a proxy whose word is believed."""
        self.slots: Mapping[str, str] = {}
        """What the parts of the path that vary are here."""
        self._scope = scope
        self._receive = receive
        self._slow = slow
        self._raw: list[tuple[bytes, bytes]] = scope["headers"]
        self.headers: dict[bytes, bytes] = dict(self._raw)
        """The headers by lower-case name; the last of several counts."""
        self._cookies: dict[str, str] | None = None

    def header(self, name: str, default: str = "") -> str:
        """One header as text."""
        found = self.headers.get(name.encode())
        return default if found is None else found.decode("latin-1")

    @property
    def query_string(self) -> str:
        """The query as it came."""
        return self._scope["query_string"].decode("latin-1")

    @property
    def query(self) -> dict[str, str]:
        """The query; the last of several counts."""
        asked = self.query_string
        return dict(parse_qsl(asked, keep_blank_values=True)) if asked else {}

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies; of two under one name that disagree neither counts."""
        if self._cookies is None:
            self._cookies = self._read_cookies() if b"cookie" in self.headers else {}
        return self._cookies

    @property
    def cookies_of_others(self) -> str:
        """The cookies that are not the room's, as they came."""
        pairs = [
            pair.strip()
            for name, value in self._raw
            if name == b"cookie"
            for pair in value.decode("latin-1").split(";")
        ]
        return "; ".join(each for each in pairs if each and not each.startswith(OURS))

    def _read_cookies(self) -> dict[str, str]:
        found: dict[str, set[str]] = {}
        for name, value in self._raw:
            if name != b"cookie":
                continue
            for pair in value.decode("latin-1").split(";"):
                key, equals, text = pair.strip().partition("=")
                if equals:
                    found.setdefault(key, set()).add(text)
        return {key: texts.pop() for key, texts in found.items() if len(texts) == 1}

    @property
    def host(self) -> str:
        """The host that this was sent to."""
        return self.header("host")

    @property
    def site_host(self) -> str:
        """The host that the visitor asked for; a proxy says it, if it is believed."""
        said = self.header("x-original-host") or self.header("x-forwarded-host")
        return said if said and self.proxied else self.host

    @property
    def wants_page(self) -> bool:
        """Whether a browser asks for something to show."""
        return "text/html" in self.header("accept")

    async def body(self, most: int = MOST_BODY) -> bytes:
        """The whole body, unless it is longer than it may be."""
        length = self._told_length()
        if length is not None and length > most:
            raise _too_large(most)
        try:
            async with asyncio.timeout(PATIENCE_S) as limit:
                with self._slow.counted(self.address, limit):
                    return await self._whole(length, most)
        except TimeoutError:
            raise Problem(
                408,
                Code.BODY_TOO_SLOW,
                f"a body must be here within {PATIENCE_S:g} s",
                headers={"connection": "close"},
            ) from None

    async def gone(self) -> None:
        """Wait until whoever asked is no longer there."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _whole(self, length: int | None, most: int) -> bytes:
        whole = b""
        # Asking again for the end of what is here already would cost a turn of the loop.
        while length is None or len(whole) < length:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                # Part of a form is a form as well, with other numbers in it.
                raise Problem(400, Code.MALFORMED, "the body was cut off")
            whole += message.get("body", b"")
            if len(whole) > most:
                raise _too_large(most)
            if not message.get("more_body"):
                break
        return whole

    def _told_length(self) -> int | None:
        """How long the body is, where the request says so."""
        size = self.headers.get(b"content-length", b"")
        return int(size) if size.isdigit() and b"transfer-encoding" not in self.headers else None

    async def read(self, kind: type[T], most: int = MOST_BODY) -> T:
        """The body as what it should be: JSON, or nothing where everything has a default."""
        raw = await self.body(most)
        if raw and not self._says_json():
            raise Problem(415, Code.UNSUPPORTED_MEDIA_TYPE, "a body must be application/json")
        try:
            return codec.decode(raw or b"{}", kind)
        except Malformed as error:
            raise Problem(400, Code.MALFORMED, str(error)) from None

    def _says_json(self) -> bool:
        header = self.headers.get(b"content-type", b"")
        return header == _JSON or header.partition(b";")[0].strip().lower() == _JSON

    async def form(self, most: int = MOST_BODY) -> dict[str, str]:
        """The body as a page's form sends it."""
        raw = await self.body(most)
        return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))


def _too_large(most: int) -> Problem:
    return Problem(413, Code.PAYLOAD_TOO_LARGE, f"a body may have {most} bytes")


def whole(request: Request, name: str, default: int, *, least: int, most: int) -> int:
    """A whole number in these bounds."""
    text = request.query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 12 and least <= int(text) <= most):
        raise InvalidInput(
            f"{name} must be a whole number from {least} to {most}, got {text[:40]!r}"
        )
    return int(text)


Header: TypeAlias = tuple[bytes, bytes]


class Cookies:
    """The names of a server's cookies and the headers that set them."""

    def __init__(self, prefix: str, *, secure: bool) -> None:
        self._prefix = f"__Host-{prefix}" if secure else prefix
        self._flags = "; HttpOnly; SameSite=Lax; Secure" if secure else "; HttpOnly; SameSite=Lax"

    def name(self, kind: str, of: str = "") -> str:
        """The name of a cookie; the prefix makes browsers refuse one set by another host."""
        return f"{self._prefix}{kind}_{of}" if of else f"{self._prefix}{kind}"

    def header(self, name: str, value: str, max_age: int) -> Header:
        """The header that sets a cookie; with no age, the one that deletes it."""
        text = f"{name}={value}; Path=/; Max-Age={max_age}{self._flags}"
        return b"set-cookie", text.encode("latin-1")

    def strict_header(self, name: str, value: str, max_age: int) -> Header:
        """The same for a cookie that no link from elsewhere brings along."""
        header, text = self.header(name, value, max_age)
        return header, text.replace(b"SameSite=Lax", b"SameSite=Strict")


def digest_of(secret: str) -> str:
    """The SHA-256 of a secret in hexadecimal."""
    return hashlib.sha256(secret.encode()).hexdigest()


def require_own_site(request: Request) -> None:
    """Refuse what the page of another site sends in somebody's name."""
    if b"sec-fetch-site" not in request.headers and b"origin" not in request.headers:
        return
    site = request.header("sec-fetch-site")
    origin = request.header("origin")
    foreign = origin and origin.partition("://")[2] != request.host
    if site in ("cross-site", "same-site") or (not site and foreign):
        raise Problem(403, Code.CROSS_SITE, "this must be sent by the server's own page")


_log = get_logger(__name__)
_NOT_OURS = (Problem, StoreUnreachable, StoreBusy, NotReplicated)
"""What no change of ours would mend, and whoever asks may try again."""
_SAFE = (b"x-content-type-options", b"nosniff")
_HANDED_ON = {
    b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"forwarded",
    b"via",
}  # fmt: skip
"""What a proxy adds: who asks through one is not on this machine, whatever the address says."""


def request_of(
    scope: Scope, receive: Receive, trusted: Sequence[Network], slow: SlowBodies
) -> Request:
    """The request, from the address that is believed."""
    peer = scope.get("client")
    address = peer[0] if peer else ""
    if not trusted or not is_among(address, trusted):
        return Request(scope, receive, address, slow=slow)
    said = [v for n, v in scope["headers"] if n == b"x-forwarded-for"]
    hops = b",".join(said).decode("latin-1")
    visitor = visitor_address(address, hops, trusted)
    return Request(scope, receive, visitor, slow=slow, proxied=True)


def is_from_here(request: Request) -> bool:
    """Whether the request comes from this machine, and not through a proxy on it."""
    return request.address in ("127.0.0.1", "::1") and not _HANDED_ON & request.headers.keys()


def reported(error: Exception) -> tuple[Problem, str, Headers]:
    """The problem of an error, logged if it is ours to mend: its request id and its headers."""
    problem = from_error(error)
    request_id = secrets.token_hex(8)
    if problem.status >= 500 and not isinstance(error, _NOT_OURS):
        _log.error("request_failed", error, request_id=request_id)
    headers = [(n.encode(), v.encode("latin-1")) for n, v in problem.headers.items()]
    return problem, request_id, headers


def problem_answer(problem: Problem, request_id: str, headers: Headers) -> Answer:
    """The problem document."""
    return Answer(problem.status, problem.body(request_id), KIND, [NO_STORE, _SAFE, *headers])


async def lifespan(receive: Receive, send: Send) -> None:
    """Answer ASGI's lifespan events: there is nothing to start or stop."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


QUIET_S = 15.0
"""After this long without news a comment is sent: proxies cut what is silent for a minute."""


class Stream(Answer, frozen=True):
    """An answer that goes on."""

    events: AsyncIterator[tuple[str, Any] | tuple[str, Any, str]] | None = None
    """Names and bodies, and the id that a reader who comes again shows as `Last-Event-ID`."""
    done: Callable[[], None] | None = None
    """Called when it is over, however it ends."""
    gone: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Returns when the reader has left, which sending alone does not show."""

    async def send(self, send: Send) -> None:
        """Send events until there are none, or nobody is left to read them."""
        sending = asyncio.ensure_future(self._send_all(send))
        watched = {sending, asyncio.ensure_future(self.gone())} if self.gone else {sending}
        try:
            ended, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if sending in ended:
                sending.result()
        finally:
            for each in watched:
                each.cancel()
            await asyncio.gather(*watched, return_exceptions=True)
            if self.done is not None:
                self.done()

    async def _send_all(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream"), NO_STORE, (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        assert self.events is not None  # noqa: S101
        try:
            async with aclosing(_never_quiet(self.events)) as texts:
                async for text in texts:
                    await send({"type": "http.response.body", "body": text, "more_body": True})
        finally:
            # What it reads from is let go of now, and not when somebody finds the time.
            if isinstance(self.events, AsyncGenerator):
                await cast(AsyncGenerator[Any], self.events).aclose()
        await send({"type": "http.response.body", "body": b""})


async def _never_quiet(
    events: AsyncIterator[tuple[str, Any] | tuple[str, Any, str]],
) -> AsyncGenerator[bytes]:
    """The text of each event, and of a comment where there is none for a while."""
    while True:
        coming = asyncio.ensure_future(anext(events, None))
        try:
            while not (await asyncio.wait({coming}, timeout=QUIET_S))[0]:
                yield b": no news\n\n"
            found = await coming
        finally:
            if not coming.done():
                coming.cancel()
                await asyncio.wait({coming})
        if found is None:
            return
        name, body, *ids = found
        marks = b"".join(b"id: %s\n" % each.encode() for each in ids)
        yield b"event: %s\n%sdata: %s\n\n" % (name.encode(), marks, codec.encode_shown(body))
