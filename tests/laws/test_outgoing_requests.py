"""A peer that drips is given up after one deadline for the whole call, whoever asks it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest

from tests.support.patience import LIMIT_S
from waystation.core.errors import StoreUnreachable
from waystation.core.operators import oidc
from waystation.core.operators.oidc import ProviderAway
from waystation.core.webhooks import delivery
from waystation.waitingroom.middleware import link
from waystation.waitingroom.operating import following

SHORT_S = 0.3
DRIPS = {
    "a head that never ends": b"HTTP/1.1 200 OK\r\n" + b"X-1: 1\r\n" * 200_000,
    "a body that never ends": b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n" + b"1" * 900_000,
}


@asynccontextmanager
async def dripping(said: bytes) -> AsyncGenerator[str]:
    """A peer that sends a byte now and then, for as long as somebody listens."""

    ended = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_head = said.index(b"\r\n\r\n") + 4 if b"\r\n\r\n" in said else 17
        try:
            writer.write(said[:with_head])
            for at in range(with_head, len(said)):
                writer.write(said[at : at + 1])
                await writer.drain()
                await asyncio.sleep(SHORT_S / 10)
        except ConnectionError:
            pass
        finally:
            writer.close()
            ended.set()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    # It learns that nobody listens any more.
    await ended.wait()
    server.close()


async def by_the_middleware(url: str) -> None:
    with pytest.raises(StoreUnreachable):
        await asyncio.to_thread(link.http_fetch(url), "GET", "/x", {})


async def by_following(url: str) -> None:
    reading = await following.look(following.FollowOptions(url=url), patience_s=SHORT_S)
    assert reading == following.Reading(None, "the site did not answer")


async def by_a_webhook(url: str) -> None:
    # Of an answer only the head is read.
    with pytest.raises(delivery.Unreachable, match="does not answer"):
        await asyncio.to_thread(delivery.post, url, b"{}", {}, [ip_network("127.0.0.0/8")])


async def by_oidc(url: str) -> None:
    with pytest.raises(ProviderAway):
        await oidc.ask(url)


@pytest.mark.parametrize(
    ("ask", "drip"),
    [(ask, drip) for ask in (by_the_middleware, by_following, by_oidc) for drip in DRIPS]
    + [(by_a_webhook, "a head that never ends")],
)
async def test_a_peer_that_drips_is_given_up(
    ask: Callable[[str], Awaitable[None]], drip: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        (link, "PATIENCE_S"),
        (delivery, "PATIENCE_S"),
        (oidc, "TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, SHORT_S)
    async with dripping(DRIPS[drip]) as url, asyncio.timeout(LIMIT_S):
        await ask(url)
