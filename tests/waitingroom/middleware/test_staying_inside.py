"""Whoever comes back within the length of a session stays inside, whoever asks the room."""

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from http.cookies import SimpleCookie
from typing import Any
from wsgiref.util import setup_testing_defaults

import msgspec
import pytest

from tests.waitingroom.http import harness
from tests.waitingroom.http.harness import QUEUE
from tests.waitingroom.middleware.shop import OPTIONS, PAGE, Shop
from waystation.core.clock import HandClock
from waystation.core.durations import seconds
from waystation.waitingroom.http.options import ServerOptions
from waystation.waitingroom.middleware import WaitingRoomWsgi
from waystation.waitingroom.options import RoomOptions

COOKIE = f"__Host-wr_s_{QUEUE}"
SESSIONS = [5, 33, 60, 120, 300, 86_400]
LIVES = [120, 3600]
"""Of tokens, as the server is told."""
_DICE = random.Random(5)
GAPS = [
    [0.9],
    [0.05, 0.9],
    [0.11, 0.9],
    [0.3, 0.9],
    [0.7, 0.75],
    [_DICE.uniform(0.05, 0.9) for _ in range(9)],
]
"""Shares of a session between two requests, again and again."""

Ask = Callable[[str], Awaitable[tuple[int, str]]]
"""Status and fresh token of a request with a token."""


def _fresh(header: str) -> str:
    kept = SimpleCookie(header).get(COOKIE)
    return kept.value if kept else ""


def verified(shop: Shop) -> Ask:
    """A proxy that asks about each request."""

    async def ask(token: str) -> tuple[int, str]:
        headers = {"cookie": f"{COOKIE}={token}"}
        answer = await shop.service.visitor().get(f"/v1/verify?queue={QUEUE}", headers=headers)
        return answer.status_code, _fresh(answer.headers.get("set-cookie", ""))

    return ask


def asgi(shop: Shop) -> Ask:
    async def ask(token: str) -> tuple[int, str]:
        headers = {**PAGE, "cookie": f"{COOKIE}={token}"}
        answer = await shop.http.get("/checkout", headers=headers)
        return answer.status_code, _fresh(answer.headers.get("set-cookie", ""))

    return ask


def wsgi(shop: Shop) -> Ask:
    """Also that of Django, which differs in how it answers alone."""

    def site(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        return [b""]

    fetch = shop.fetch_from(asyncio.get_running_loop())
    wrapped = WaitingRoomWsgi(site, room="", options=shop.options, fetch=fetch)
    wrapped.gate._now = shop.middleware.gate._now  # pyright: ignore[reportPrivateUsage]

    def blocking(token: str) -> tuple[int, str]:
        environ: dict[str, Any] = {"PATH_INFO": "/checkout", "HTTP_ACCEPT": "text/html"}
        environ["HTTP_COOKIE"] = f"{COOKIE}={token}"
        setup_testing_defaults(environ)
        sent: list[Any] = []
        list(wrapped(environ, lambda *given: sent.extend(given)))  # pyright: ignore
        return int(sent[0][:3]), _fresh(dict(sent[1]).get("set-cookie", ""))

    async def ask(token: str) -> tuple[int, str]:
        return await asyncio.to_thread(blocking, token)

    return ask


async def _claimed(shop: Shop) -> str:
    """Somebody who has waited."""
    visitor = shop.service.visitor()
    await visitor.enter()
    return visitor.cookie(f"s_{QUEUE}")


async def _handed_over(shop: Shop) -> str:
    """The same on a site of another host, as late as may be."""
    visitor = shop.service.visitor()
    await visitor.enter()
    claims = shop.service.tokens.read_session(visitor.cookie(f"s_{QUEUE}"), QUEUE)
    place, room = await shop.service.room.get_place(claims.sub), shop.service.room
    token = await room.hand_over(place, "other.test")
    await shop.clock.advance(min(50, 0.9 * seconds((await room.state()).options.session)))
    asked = {"token": f"{QUEUE}.{token}", "host": "other.test"}
    answer = await shop.service.visitor().post("/v1/redeem", asked)
    return answer.json()["session_token"]


@pytest.fixture(params=LIVES)
async def shop(
    request: pytest.FixtureRequest, redis_url: str, clock: HandClock
) -> AsyncGenerator[Shop]:
    options = ServerOptions(poll_floor=0, change_floor_ms=0, session_token_s=request.param)
    async with harness.service(redis_url, options, clock=clock) as service:
        built = Shop(service, clock)
        yield built
        await built.http.aclose()


@pytest.mark.parametrize(("way", "recheck"), [(verified, 0), (asgi, 0), (asgi, 900), (wsgi, 0)])
async def test_activity_keeps_every_session_alive_until_it_may_last_no_longer(
    shop: Shop, clock: HandClock, way: Callable[[Shop], Ask], recheck: int
) -> None:
    seldom = Shop(shop.service, clock, msgspec.structs.replace(OPTIONS, recheck=recheck))
    ask, begins, out = way(seldom), itertools.cycle((_claimed, _handed_over)), list[str]()
    for session, gaps in itertools.product(SESSIONS, GAPS):
        longest = 2 * session
        options = RoomOptions(session=session, session_max=longest, newcomers_per_minute=0)
        # Nobody comes in anew without waiting.
        await shop.service.room.open(options.changed(waiting_page="always"))
        began_ms, begin = clock.now_ms(), next(begins)
        token, inside_s = await begin(seldom), 0.0
        for gap in itertools.chain([0], itertools.cycle(gaps)):
            await clock.advance(gap * session)
            inside_s = (clock.now_ms() - began_ms) / 1000
            status, fresh = await ask(token)
            token = fresh or token
            if status not in (200, 204) or inside_s > longest + 1:
                # What the room is asked seldom, it says late.
                assert status not in (200, 204) or recheck
                break
        if inside_s < longest - 1:
            out.append(f"{begin.__name__} {session} s, {gaps}: out after {inside_s} s")
    await seldom.http.aclose()
    assert not out, "\n".join(out)
