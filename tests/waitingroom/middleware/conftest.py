"""A shop behind a proxy, with a room beside it."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.ports import free_port
from tests.waitingroom.http import harness
from tests.waitingroom.middleware import recipes
from tests.waitingroom.middleware.block import Block, welcome
from tests.waitingroom.middleware.nginx import nginx
from tests.waitingroom.middleware.shop import Shop
from waystation.core.clock import HandClock
from waystation.core.http.server import serving
from waystation.waitingroom.http.options import ServerOptions


class Proxy(Protocol):
    """Runs in front of a room and a site; the port that it listens on."""

    def __call__(
        self, folder: Path, *, room: int, origin: int
    ) -> AbstractAsyncContextManager[int]: ...


PROXIES: dict[str, Proxy] = {
    "nginx": nginx,
    "caddy": recipes.caddy,
    "envoy": recipes.envoy,
    "traefik": recipes.traefik,
}


OPTIONS = ServerOptions(poll_floor=0, trusted_proxies=["127.0.0.1/32"])


class Corner:
    """A proxy and the two servers behind it, which tests have one after the other."""

    def __init__(self) -> None:
        self.port, self.room, self.origin = 0, free_port(), free_port()
        self.block: Block | None = None

    async def to_room(self, scope: Any, receive: Any, send: Any) -> None:
        if self.block and scope["type"] == "http":
            await self.block.service.app(scope, receive, send)

    async def to_site(self, scope: Any, receive: Any, send: Any) -> None:
        if self.block:
            await self.block.site(scope, receive, send)
        elif scope["type"] == "http":
            # Whoever starts the proxy asks whether it answers.
            await welcome(send)


@pytest.fixture(scope="module", params=PROXIES)
async def corner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Corner]:
    """Each of the proxies, started once."""
    folder, built = tmp_path_factory.mktemp(request.param), Corner()
    async with (
        serving(built.to_room, host="127.0.0.1", port=built.room),
        serving(built.to_site, host="127.0.0.1", port=built.origin),
        PROXIES[request.param](folder, room=built.room, origin=built.origin) as built.port,
    ):
        yield built


@pytest.fixture
async def behind(corner: Corner, redis_url: str) -> AsyncGenerator[Block]:
    """A new shop and its room behind each of the proxies."""
    async with harness.service(redis_url, OPTIONS, newcomers_per_minute=0) as service:
        built = corner.block = Block(service)
        built.port, built.origin, built.room = corner.port, corner.origin, corner.room
        yield built
        corner.block = None


@pytest.fixture(params=PROXIES)
async def apart(
    request: pytest.FixtureRequest, redis_url: str, tmp_path: Path
) -> AsyncGenerator[Block]:
    """The same with servers of the test's own, which it may close."""
    async with block_behind(PROXIES[request.param], redis_url, tmp_path) as built:
        yield built


@pytest.fixture
async def block(redis_url: str, tmp_path: Path) -> AsyncGenerator[Block]:
    async with block_behind(nginx, redis_url, tmp_path) as built:
        yield built


@asynccontextmanager
async def block_behind(proxy: Proxy, redis_url: str, folder: Path) -> AsyncGenerator[Block]:
    """A shop and its room, behind this one."""
    room, origin = free_port(), free_port()
    async with harness.service(redis_url, OPTIONS, newcomers_per_minute=0) as service:
        built = Block(service)
        async with (
            serving(service.app, host="127.0.0.1", port=room) as closing,
            serving(built.site, host="127.0.0.1", port=origin),
            proxy(folder, room=room, origin=origin) as port,
        ):
            built.port, built.origin, built.room = port, origin, room
            built.close_room = closing
            built.seen.clear()
            yield built


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def shop(redis_url: str, clock: HandClock) -> AsyncGenerator[Shop]:
    async with harness.service(redis_url, clock=clock) as service:
        built = Shop(service, clock)
        yield built
        await built.http.aclose()
