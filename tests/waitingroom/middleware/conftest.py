"""A shop behind a proxy, with a room beside it."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.ports import free_port
from tests.waitingroom.http import hands
from tests.waitingroom.middleware import recipes
from tests.waitingroom.middleware.block import Block
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


@pytest.fixture(params=PROXIES)
async def behind(
    request: pytest.FixtureRequest, redis_url: str, tmp_path: Path
) -> AsyncGenerator[Block]:
    """A shop and its room behind each of the proxies."""
    async with block_behind(PROXIES[request.param], redis_url, tmp_path) as built:
        yield built


@pytest.fixture
async def block(redis_url: str, tmp_path: Path) -> AsyncGenerator[Block]:
    async with block_behind(nginx, redis_url, tmp_path) as built:
        yield built


@asynccontextmanager
async def block_behind(proxy: Proxy, redis_url: str, folder: Path) -> AsyncGenerator[Block]:
    """A shop and its room, behind this one."""
    options = ServerOptions(poll_floor_ms=0, trusted_proxies=["127.0.0.1/32"])
    room, origin = free_port(), free_port()
    async with hands.house(redis_url, options, newcomers_per_minute=0) as house:
        built = Block(house)
        async with (
            serving(house.app, host="127.0.0.1", port=room) as closing,
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
    async with hands.house(redis_url, clock=clock) as house:
        built = Shop(house, clock)
        yield built
        await built.http.aclose()
