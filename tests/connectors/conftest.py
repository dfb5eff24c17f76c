"""A shop behind nginx, with a room beside it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.connectors.block import Block
from tests.connectors.nginx import nginx
from tests.connectors.shop import Shop
from tests.interfaces.api import hands
from tests.support.ports import free_port
from waystation.core.clock import HandClock
from waystation.interfaces.api.desk import DeskOptions
from waystation.interfaces.api.server import serving


@pytest.fixture
async def block(redis_url: str, tmp_path: Path) -> AsyncGenerator[Block]:
    options = DeskOptions(poll_floor_ms=0, trusted_proxies=["127.0.0.1/32"])
    room, origin = free_port(), free_port()
    async with hands.house(redis_url, options, newcomers_per_minute=0) as house:
        built = Block(house)
        async with (
            serving(house.app, host="127.0.0.1", port=room) as closing,
            serving(built.site, host="127.0.0.1", port=origin),
            nginx(tmp_path, room=room, origin=origin) as port,
        ):
            built.port, built.origin, built.room = port, origin, room
            built.close_room = closing
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
