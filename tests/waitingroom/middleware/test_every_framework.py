"""What holds for the middleware of every framework, by what its site gets to see."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from textwrap import dedent
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, unquote_to_bytes, urlsplit

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.waitingroom.middleware.spellings import spellings, taken_for
from waystation.core import codec
from waystation.core.errors import StoreUnreachable
from waystation.waitingroom.http.context import onward, safe_path, split_target
from waystation.waitingroom.middleware import (
    GateOptions,
    Rule,
    WaitingRoomMiddleware,
    WaitingRoomWsgi,
)
from waystation.waitingroom.middleware.gate import Gate, Redeem
from waystation.waitingroom.middleware.link import Fetch
from waystation.waitingroom.signing import Keyring
from waystation.waitingroom.visitor import Place

SITE = "https://shop.test"
RULES = [Rule(queue="shop", path="/checkout*"), Rule(queue="shop", path="/größe*")]
OPTIONS = GateOptions(rules=RULES, site_url=SITE, room_url="https://wait.test")
ODD = ("/products;colour=red/12", "/a%20b", "/caf%C3%A9", "/blog/checkout", "/search/100%25")


class Seen(NamedTuple):
    """What came of a request."""

    status: int
    location: str
    at_site: list[str]
    """The path as the site reads it, and as it came, where the site can see that."""


Ask = Callable[[Sequence[str]], list[Seen]]


def away(
    method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, bytes]:
    raise StoreUnreachable("away")


def crowded() -> Fetch:
    """A room in which everybody waits."""
    keyring = Keyring.generate(Random(1))
    config = keyring.sign_config(codec.encode({"iat": int(time.time()), "queues": []}))
    known = {
        "/.well-known/jwks.json": codec.encode(keyring.jwks()),
        "/v1/connector-config": config.encode(),
    }

    def fetch(
        method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> tuple[int, bytes]:
        return (200, known[path]) if path in known else (409, b"{}")

    return fetch


def asgi(*, raw: bool) -> Callable[[GateOptions, Fetch], Ask]:
    def built(options: GateOptions, fetch: Fetch) -> Ask:
        seen: list[str] = []

        async def site(scope: Any, receive: Any, send: Any) -> None:
            seen.extend([scope["path"], scope.get("raw_path", b"").decode("latin-1")])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        middleware = WaitingRoomMiddleware(site, room="", options=options, fetch=fetch)

        async def one(target: str) -> Seen:
            path, _, query = target.partition("?")
            scope: dict[str, Any] = {
                "type": "http", "method": "GET", "path": unquote(path),
                "query_string": query.encode(), "headers": [(b"accept", b"text/html")],
            }  # fmt: skip
            if raw:
                scope["raw_path"] = path.encode()
            sent: list[Any] = []

            async def send(message: Any) -> None:
                sent.append(message)

            seen.clear()
            await middleware(scope, None, send)  # pyright: ignore[reportArgumentType]
            headers = dict(sent[0]["headers"])
            return Seen(sent[0]["status"], headers.get(b"location", b"").decode(), list(seen))

        async def every(targets: Sequence[str]) -> list[Seen]:
            return [await one(each) for each in targets]

        return lambda targets: asyncio.run(every(targets))

    return built


def wsgi(*, raw: str) -> Callable[[GateOptions, Fetch], Ask]:
    def built(options: GateOptions, fetch: Fetch) -> Ask:
        seen: list[str] = []

        def site(environ: dict[str, Any], start: Any) -> list[bytes]:
            read = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
            seen.extend([read, environ.get(raw, "")])
            start("200 OK", [])
            return []

        middleware = WaitingRoomWsgi(site, room="", options=options, fetch=fetch)

        def one(target: str) -> Seen:
            path, _, query = target.partition("?")
            environ: dict[str, Any] = {
                "REQUEST_METHOD": "GET", "QUERY_STRING": query, "HTTP_ACCEPT": "text/html",
                "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            }  # fmt: skip
            if raw:
                environ[raw] = target
            sent: list[Any] = []
            seen.clear()
            list(middleware(environ, lambda *given: sent.extend(given)))  # pyright: ignore
            return Seen(int(sent[0][:3]), dict(sent[1]).get("location", ""), list(seen))

        return lambda targets: [one(each) for each in targets]

    return built


# Django keeps one configuration in a process, so its site has one of its own.
DJANGO = dedent("""
    import asyncio, io, json, sys, time
    from pathlib import Path
    from urllib.parse import unquote, unquote_to_bytes
    from django.conf import settings
    kind, options, answers = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    settings.configure(
        ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], WAITING_ROOM={"room": "http://room", **options},
        MIDDLEWARE=["waystation.waitingroom.middleware.django.WaitingRoom"],
    )
    from waystation.core.errors import StoreUnreachable
    from waystation.waitingroom.middleware import link

    def fetch(method, path, headers, body=None):
        if not answers:
            raise StoreUnreachable("away")
        return (200, answers[path].encode()) if path in answers else (409, b"{}")

    import waystation.waitingroom.middleware.connector as connector
    connector.http_fetch = lambda room: fetch
    import django
    django.setup()
    from django.core.asgi import get_asgi_application
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import re_path
    seen = []

    def site(request):
        raw = getattr(request, "scope", {}).get("raw_path", b"").decode("latin-1")
        seen.extend([request.path_info, raw or request.META.get("RAW_URI", "")])
        return HttpResponse("")
    urlpatterns = [re_path("(?s).*", site)]

    def in_threads(app, target):
        path, _, query = target.partition("?")
        sent = []
        environ = {"REQUEST_METHOD": "GET", "QUERY_STRING": query, "HTTP_ACCEPT": "text/html",
                   "PATH_INFO": unquote_to_bytes(path).decode("latin-1"), "RAW_URI": target,
                   "wsgi.input": io.BytesIO(), "SERVER_NAME": "shop", "SERVER_PORT": "80"}
        list(app(environ, lambda status, headers: sent.extend([status, dict(headers)])))
        return int(sent[0][:3]), sent[1].get("location", "")

    async def on_loop(app, target):
        path, _, query = target.partition("?")
        sent = []
        scope = {"type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(),
                 "query_string": query.encode(), "headers": [(b"accept", b"text/html")]}
        waits = asyncio.Event()
        async def receive():
            if not sent:
                sent.append(None)
                return {"type": "http.request"}
            await waits.wait()
        async def send(message):
            sent.append(message)
        await app(scope, receive, send)
        headers = {name.lower(): value for name, value in sent[1]["headers"]}
        return sent[1]["status"], headers.get(b"location", b"").decode()

    async def every(targets):
        app = get_asgi_application()
        found = []
        for each in targets:
            seen.clear()
            found.append([*await on_loop(app, each), list(seen)])
        return found

    targets = json.load(sys.stdin)
    if kind == "loop":
        found = asyncio.run(every(targets))
    else:
        app, found = get_wsgi_application(), []
        for each in targets:
            seen.clear()
            found.append([*in_threads(app, each), list(seen)])
    print(json.dumps(found))
""")


def django(kind: str) -> Callable[[GateOptions, Fetch], Ask]:
    def built(options: GateOptions, fetch: Fetch) -> Ask:
        asked = {"rules": [msgspec.to_builtins(each) for each in options.rules]}
        asked |= {"site_url": options.site_url, "room_url": options.room_url, "fail": options.fail}
        paths = ("/.well-known/jwks.json", "/v1/connector-config")
        answers = {} if fetch is away else {p: fetch("GET", p, {})[1].decode() for p in paths}
        command = [sys.executable, "-c", DJANGO, kind, json.dumps(asked), json.dumps(answers)]

        def ask(targets: Sequence[str]) -> list[Seen]:
            done = subprocess.run(
                command, input=json.dumps(targets), capture_output=True, text=True, check=False,
                cwd=Path(__file__).parents[3],
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return [Seen(*each) for each in json.loads(done.stdout.splitlines()[-1])]

        return ask

    return built


FRAMEWORKS = {
    "asgi": asgi(raw=True),
    "asgi without the raw path": asgi(raw=False),
    "wsgi": wsgi(raw=""),
    "gunicorn": wsgi(raw="RAW_URI"),
    "uwsgi": wsgi(raw="REQUEST_URI"),
    "django": django("threads"),
    "django on a loop": django("loop"),
}
every_framework = pytest.mark.parametrize("framework", FRAMEWORKS)


@every_framework
def test_whatever_a_site_takes_for_the_protected_part_needs_a_session(framework: str) -> None:
    ask = FRAMEWORKS[framework](OPTIONS, crowded())
    paths = [*spellings(), "/gr%C3%B6%C3%9Fe", "/GR%C3%96SSE/../gr%C3%B6%C3%9Fe/x"]
    for path, found in zip(paths, ask(paths), strict=True):
        words = ("checkout", "größe")
        wrong = {p: kinds for p in found.at_site for w in words if (kinds := taken_for(p, w))}
        assert not wrong, (path, found.status)
    assert [each.status for each in ask(ODD)] == [200] * len(ODD)


@every_framework
@pytest.mark.parametrize("own", [True, False], ids=["own rules", "the operator's rules"])
def test_a_site_that_starts_while_the_room_is_away_lets_nobody_into_the_protected_part(
    framework: str, own: bool
) -> None:
    options = OPTIONS if own else GateOptions(site_url=SITE, room_url="https://wait.test")
    protected, other = FRAMEWORKS[framework](options, away)(["/checkout", "/other"])
    assert (protected.status, protected.at_site) == (503, [])
    # Without rules nobody knows what is protected, so everything may be.
    assert other.status == (200 if own else 503)
    opened = FRAMEWORKS[framework](msgspec.structs.replace(options, fail="open"), away)
    assert [each.status for each in opened(["/checkout"])] == [200]


SAFE = "/:@!$&'()*+,;=~-._"
PARTS = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="\\"))
TAILS = st.lists(PARTS.map(lambda part: quote(part, safe="")), max_size=4).map("/".join)
QUERIES = st.text("ab=&%/?", max_size=8).map(lambda text: quote(text, safe="=&?/"))
TARGETS = ("/checkout/caf%C3%A9", "/checkout/100%25", "/checkout/a%3Fb%3D1", "/checkout/x%2Fy",
        "/checkout/%ff", "/checkout/a%20b;c=1?x=1&y=%20z", "/checkout?seat=4", "/checkout/%23x",
        "/checkout/a+b?q=a+b", "/checkout?next=/a?b=1")  # fmt: skip


def came_back(framework: str, asked: str, found: Seen) -> None:
    """Follow the target through the room, and look at where the browser ends."""
    assert found.status == 303, (asked, found)
    (target,) = parse_qs(urlsplit(found.location).query)["target"]
    host, path = split_target(target, ["shop.test"])
    assert host == "shop.test"

    class There:
        name = "shop"

        async def hand_over(self, place: Place, host: str) -> str:
            return "t0ken"

    back = asyncio.run(onward(There(), Place("p", "o"), f"//{host}{safe_path(path)}", host="wait"))  # pyright: ignore
    arrived = urlsplit(back)
    redeem = Gate(OPTIONS).decide("GET", arrived.path, arrived.query, {})
    assert isinstance(redeem, Redeem)
    assert redeem.token == "shop.t0ken"
    ends, _, query = redeem.location.partition("?")
    wanted, _, wanted_query = asked.partition("?")
    assert query == wanted_query
    assert unquote_to_bytes(ends) == unquote_to_bytes(wanted)
    if framework not in ("wsgi", "asgi without the raw path"):  # whose servers tell no more
        assert ends == wanted


@every_framework
def test_the_way_back_leads_to_what_was_asked_for(framework: str) -> None:
    asked = [
        each for each in TARGETS if framework != "asgi without the raw path" or "%ff" not in each
    ]
    for each, found in zip(asked, FRAMEWORKS[framework](OPTIONS, crowded())(asked), strict=True):
        came_back(framework, each, found)


@pytest.mark.parametrize("framework", ["asgi", "wsgi", "gunicorn"])
@given(tail=TAILS, query=QUERIES)
@example("%2e%2e", "")
def test_the_way_back_leads_to_whatever_was_asked_for(
    framework: str, tail: str, query: str
) -> None:
    asked = f"/checkout/{tail}" + (f"?{query}" if query else "")
    if len(asked) > 900 or any(each in unquote(unquote(asked)) for each in ("\\", "\n", "\r")):
        return
    (found,) = FRAMEWORKS[framework](OPTIONS, crowded())([asked])
    came_back(framework, asked, found)


@pytest.mark.parametrize("framework", ["asgi", "wsgi"])
def test_no_redirect_leads_to_the_address_it_answers(framework: str) -> None:
    asked = ["/search?x_wr_token=1", "/login?next=/a?wr_token=1", "/x?wr_token", "/x?wr_tokens=1"]
    for found in FRAMEWORKS[framework](OPTIONS, crowded())(asked):
        assert found.status == 200
    (spent,) = FRAMEWORKS[framework](OPTIONS, crowded())(["/x?a=1&wr_token=shop.x&b=2"])
    assert (spent.status, spent.location) == (303, "/x?a=1&b=2")


@pytest.mark.parametrize("framework", ["asgi", "wsgi"])
def test_a_token_stays_in_the_address_until_the_room_has_answered(framework: str) -> None:
    (found,) = FRAMEWORKS[framework](OPTIONS, away)(["/checkout?wr_token=shop.x"])
    assert (found.status, found.location) == (503, "")
